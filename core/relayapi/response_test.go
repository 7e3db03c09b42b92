package relayapi_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// nested returns an object within depth n and no less.
func nested(n int) string { return strings.Repeat(`{"a":`, n) + "{}" + strings.Repeat("}", n) }

func TestOK(t *testing.T) {
	must(t, relayapi.ParseOK(relayapi.OK()))
	must(t, relayapi.ParseOK([]byte(`{"ok":true,"more":[]}`)))
	for _, s := range []relayapi.Status{relayapi.Registered, relayapi.Idempotent, relayapi.Refreshed, relayapi.Rotated} {
		if got, err := relayapi.ParseOKStatus(relayapi.OKStatus(s)); err != nil || got != s {
			t.Error(got, err)
		}
	}
	for _, bad := range []string{"", "null", "[]", "{}", `{"ok":false}`, `{"ok":"true"}`, `{"ok":true`, `{"ok":true,"ok":true}`, nested(36)} {
		wantCode(t, relayapi.ParseOK([]byte(bad)), fault.RelayProtocolError)
	}
	for _, bad := range []string{`{"ok":true}`, `{"ok":true,"status":"new"}`, `{"status":"rotated"}`} {
		_, err := relayapi.ParseOKStatus([]byte(bad))
		wantCode(t, err, fault.RelayProtocolError)
	}
}

func TestLookupDepth(t *testing.T) {
	_, err := relayapi.ParseLookup([]byte(nested(32)))
	must(t, err)
	for _, bad := range []string{nested(33), nested(36), "[]", "x"} {
		_, err := relayapi.ParseLookup([]byte(bad))
		wantCode(t, err, fault.RelayProtocolError)
	}
}

func TestInboxPageRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		page, last := relayapi.NewInboxPage(100), ""
		for i := range n {
			last = fmt.Sprintf("%d-0", i+5)
			if !page.AddPacket(last, []byte(nested(32))) {
				t.Fatal("a small entry does not fit")
			}
		}
		entries, err := relayapi.ParseInboxPage(page.Finish(last), "4-9")
		if err != nil || len(entries) != n || page.Entries() != n {
			t.Fatal(len(entries), err)
		}
		if n > 0 && (entries[n-1].StreamID != last || string(entries[0].Packet.Canonical()) != nested(32)) {
			t.Fatal(entries)
		}
	}
}

func TestPageBounds(t *testing.T) {
	page := relayapi.NewInboxPage(2)
	for i := range 2 {
		if page.Full() || !page.AddPacket(fmt.Sprintf("%d-0", i), []byte("1")) {
			t.Fatal("the page is full too early")
		}
	}
	if !page.Full() || page.AddPacket("3-0", []byte("1")) {
		t.Fatal("the page takes more than its limit")
	}

	packet := []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	page, fits := relayapi.NewInboxPage(100), 0
	for page.AddPacket(fmt.Sprintf("%d-0", fits), packet) {
		fits++
	}
	if body := page.Finish(fmt.Sprintf("%d-0", fits-1)); fits != 3 || len(body) > wire.MaxPageBytes {
		t.Fatalf("%d entries, %d bytes", fits, len(body))
	}
	page = relayapi.NewDirectoryPage(100)
	if !page.AddCard(bytes.Repeat([]byte("1"), wire.MaxPageBytes)) || page.AddCard([]byte("1")) {
		t.Fatal("the first entry, and only that, always fits")
	}
}

func TestInboxPageRefusals(t *testing.T) {
	entry := func(id, packet string) string { return `{"streamId":"` + id + `","packet":` + packet + `}` }
	page := func(entries ...string) string {
		return `{"messages":[` + strings.Join(entries, ",") + `],"cursor":null}`
	}
	var many []string
	for i := range wire.MaxInboxPage + 1 {
		many = append(many, entry(fmt.Sprintf("%d-0", 5+i), "{}"))
	}
	_, err := relayapi.ParseInboxPage([]byte(page(many[1:]...)), "4-0")
	must(t, err)
	for name, bad := range map[string]string{
		"no object":           `[]`,
		"no messages":         `{"cursor":null}`,
		"messages no list":    `{"messages":{},"cursor":null}`,
		"no cursor":           `{"messages":[]}`,
		"cursor a number":     `{"messages":[],"cursor":1}`,
		"entry no object":     page(`1`),
		"no stream ID":        page(`{"packet":{}}`),
		"stream ID malformed": page(entry("5", "{}")),
		"no packet":           page(`{"streamId":"5-0"}`),
		"packet too deep":     page(entry("5-0", "{}"), entry("6-0", nested(33))),
		"page too deep":       page(entry("5-0", nested(36))),
		"not ascending":       page(entry("6-0", "{}"), entry("6-0", "{}")),
		"not after since":     page(entry("4-0", "{}")),
		"101 entries":         page(many...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := relayapi.ParseInboxPage([]byte(bad), "4-0")
			wantCode(t, err, fault.RelayProtocolError)
		})
	}
	_, err = relayapi.ParseInboxPage([]byte(`{"messages":[{"streamId":"0-0","packet":7,"x":1}],"cursor":"0-0","y":2}`), "-")
	must(t, err)
}

func TestDirectoryPage(t *testing.T) {
	page := relayapi.NewDirectoryPage(100)
	page.AddCard([]byte(`{"b":1}`))
	page.AddCard([]byte(`{"b":2}`))
	got, err := relayapi.ParseDirectoryPage(page.Finish(`c"`))
	if err != nil || len(got.Cards) != 2 || got.Cursor != `c"` {
		t.Fatal(got, err)
	}
	if got, err = relayapi.ParseDirectoryPage(relayapi.NewDirectoryPage(1).Finish("")); err != nil || got.Cursor != "" {
		t.Fatal(got, err)
	}
	for _, bad := range []string{`{"cards":[],"cursor":[]}`, `{"cursor":null}`, `{"cards":[` + nested(33) + `],"cursor":null}`} {
		_, err := relayapi.ParseDirectoryPage([]byte(bad))
		wantCode(t, err, fault.RelayProtocolError)
	}
}

func TestEvents(t *testing.T) {
	if got := string(relayapi.Event(relayapi.EventDrain)); got != "event: drain\ndata: {}\n\n" {
		t.Errorf("%q", got)
	}
	if got := string(relayapi.PacketEvent(relayapi.EventCatchup, "1-0", []byte(`{"a":1}`))); got != "id: 1-0\nevent: catchup\ndata: {\"packet\":{\"a\":1}}\n\n" {
		t.Errorf("%q", got)
	}
	if relayapi.Heartbeat()[0] != ':' {
		t.Error("a heartbeat is no comment")
	}
	e, err := relayapi.ParsePacketEvent("1-0", []byte(`{"packet":{"a":1}}`))
	if err != nil || e.StreamID != "1-0" || string(e.Packet.Canonical()) != `{"a":1}` {
		t.Fatal(e, err)
	}
	for _, bad := range [][2]string{{"", `{"packet":1}`}, {"1-0", `{}`}, {"1-0", `x`}, {"1-0", `{"packet":` + nested(33) + `}`}} {
		_, err := relayapi.ParsePacketEvent(bad[0], []byte(bad[1]))
		wantCode(t, err, fault.RelayProtocolError)
	}
}

func TestClientNetworkOfOddAddresses(t *testing.T) {
	if got := relayapi.ClientNetwork(netip.MustParseAddr("fe80::1:2%eth0")); got.String() != "fe80::/56" {
		t.Error(got)
	}
	if got := relayapi.ClientNetwork(netip.Addr{}); got.IsValid() {
		t.Error(got)
	}
	if !relayapi.Blocked(netip.Addr{}, wire.Development) {
		t.Error("no address is not blocked")
	}
	if !relayapi.BlockedText("64:ff9b::127.0.0.1", wire.Development) {
		t.Error("a NAT64 address is no loopback of this machine")
	}
}

func FuzzInboxPage(f *testing.F) {
	for _, s := range []string{
		`{"messages":[],"cursor":null}`,
		`{"messages":[{"streamId":"5-0","packet":{}},{"streamId":"5-1","packet":[1e3]}],"cursor":"5-1"}`,
		`{"messages":[{"streamId":"05-0","packet":` + nested(33) + `}],"cursor":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, err := relayapi.ParseInboxPage(body, "4-0")
		if err != nil {
			wantCode(t, err, fault.RelayProtocolError)
			return
		}
		since, page := "4-0", relayapi.NewInboxPage(100)
		for _, e := range entries {
			if wire.CompareStreamIDs(e.StreamID, since) <= 0 || !e.Packet.WithinDepth(wire.MaxJSONDepth) {
				t.Fatal("an entry breaks a rule of the page")
			}
			since = e.StreamID
			page.AddPacket(e.StreamID, e.Packet.Canonical())
		}
		again, err := relayapi.ParseInboxPage(page.Finish(""), "4-0")
		if err != nil || len(again) != len(entries) {
			t.Fatalf("the page written again has %d of %d entries: %v", len(again), len(entries), err)
		}
	})
}
