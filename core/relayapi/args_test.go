package relayapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

func query(t *testing.T, s string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(s)
	must(t, err)
	return q
}

func TestParseInbox(t *testing.T) {
	for _, c := range []struct {
		query string
		since string // "" for a refusal
		limit int64
	}{
		{"", "-", 100}, {"since=-", "-", 100}, {"since=7-0&limit=1", "7-0", 1}, {"limit=100", "-", 100}, {"other=1", "-", 100},
		{"since=", "", 0}, {"since=7", "", 0}, {"since=-&since=-", "", 0}, {"limit=", "", 0}, {"limit=0", "", 0},
		{"limit=101", "", 0}, {"limit=010", "", 0}, {"limit=1e1", "", 0}, {"limit=%201", "", 0}, {"limit=1&limit=1", "", 0},
		{"limit=-1", "", 0}, {"limit=99999999999999999999", "", 0},
	} {
		since, limit, err := relayapi.ParseInbox(query(t, c.query))
		if c.since == "" {
			wantCode(t, err, fault.InvalidArgument)
			continue
		}
		if err != nil || since != c.since || limit != c.limit {
			t.Errorf("%q: %q %d %v", c.query, since, limit, err)
		}
	}
}

func TestParseAck(t *testing.T) {
	for _, bad := range []string{"", "through=", "through=-", "through=1", "through=1-1&through=1-1"} {
		_, err := relayapi.ParseAck(query(t, bad))
		wantCode(t, err, fault.InvalidArgument)
	}
	if through, err := relayapi.ParseAck(query(t, "through=1-2")); err != nil || through != "1-2" {
		t.Fatal(through, err)
	}
}

func TestParseDirectory(t *testing.T) {
	got, err := relayapi.ParseDirectory(query(t, "tag=hosted&profile=ace:text:1&cursor=c&limit=3"))
	if want := (relayapi.Directory{Tag: "hosted", Profile: "ace:text:1", Cursor: "c", Limit: 3}); err != nil || got != want {
		t.Fatal(got, err)
	}
	if got, err = relayapi.ParseDirectory(nil); err != nil || got != (relayapi.Directory{Limit: 100}) {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"tag=", "profile=", "cursor=", "limit=0", "tag=a&tag=b"} {
		_, err := relayapi.ParseDirectory(query(t, bad))
		wantCode(t, err, fault.InvalidArgument)
	}
}

func TestBodies(t *testing.T) {
	peer := wire.ACEID(strings.Repeat("a", 64))
	block := relayapi.Block{Peer: peer, Blocked: true, Revision: 5}
	body, err := relayapi.ParseBody(block.Body())
	must(t, err)
	if got, err := relayapi.ParseBlock(body, "someone else"); err != nil || got != block {
		t.Fatal(got, err)
	}
	_, err = relayapi.ParseBlock(body, peer)
	wantCode(t, err, fault.InvalidArgument)

	wake := relayapi.Wake{Gateway: "http://localhost:1/w", Token: strings.Repeat("t", 22)}
	body, err = relayapi.ParseBody(wake.Body())
	must(t, err)
	if got, err := relayapi.ParseWake(body, wire.Development); err != nil || got != wake {
		t.Fatal(got, err)
	}
	_, err = relayapi.ParseWake(body, wire.Production)
	wantCode(t, err, fault.InvalidArgument)
}

func TestSendBody(t *testing.T) {
	for _, c := range []struct {
		permit    []byte
		want      string
		hasPermit bool
	}{
		{nil, `{"packet":{"a":1}}`, false},
		{[]byte(`null`), `{"packet":{"a":1},"permit":null}`, true},
	} {
		text := relayapi.SendBody([]byte(`{"a":1}`), c.permit)
		if string(text) != c.want {
			t.Fatalf("%s", text)
		}
		body, err := relayapi.ParseBody(text)
		must(t, err)
		send, err := relayapi.ParseSend(body)
		if err != nil || send.HasPermit != c.hasPermit || string(send.Packet.Canonical()) != `{"a":1}` {
			t.Fatal(send, err)
		}
	}
	for _, bad := range []string{`{}`, `[]`, `{"permit":1}`, `{"packet":1,"more":1}`} {
		body, err := relayapi.ParseBody([]byte(bad))
		must(t, err)
		_, err = relayapi.ParseSend(body)
		wantCode(t, err, fault.InvalidArgument)
	}
}

// TestDeepBody checks that an object beyond MAX_JSON_DEPTH reaches its own
// decoder, whatever its depth, and is still too deep for it.
func TestDeepBody(t *testing.T) {
	for _, depth := range []int{wire.MaxJSONDepth + 2, 100, 1 << 20} {
		deep := strings.Repeat(`["\"]",`, depth) + "1" + strings.Repeat("]", depth)
		body, err := relayapi.ParseBody([]byte(`{"packet":` + deep + `,"permit":"\\[\"["}`))
		must(t, err)
		send, err := relayapi.ParseSend(body)
		must(t, err)
		permit, _ := send.Permit.AsString()
		if send.Packet.WithinDepth(wire.MaxJSONDepth) || permit != `\["[` {
			t.Fatalf("depth %d: within the bound, or with the permit %q", depth, permit)
		}
	}
	within := strings.Repeat("[", wire.MaxJSONDepth+1) + "1" + strings.Repeat("]", wire.MaxJSONDepth+1)
	body, err := relayapi.ParseBody([]byte(`{"packet":` + within + `}`))
	must(t, err)
	if string(body.Canonical()) != `{"packet":`+within+`}` {
		t.Fatalf("changed: %s", body.Canonical())
	}
	for _, bad := range []string{
		strings.Repeat("[", 1<<20), strings.Repeat("[", 100) + strings.Repeat("]", 99), strings.Repeat("[", 100) + strings.Repeat("]", 101),
		`"\`, strings.Repeat("[", 100) + `"`,
	} {
		_, err := relayapi.ParseBody([]byte(bad))
		wantCode(t, err, fault.InvalidArgument)
	}
}
