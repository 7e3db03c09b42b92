package relayclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

const okBody = `{"ok":true}`

// TestRequests checks every method's request as a relay reads it.
func TestRequests(t *testing.T) {
	id := newIdentity(t)
	peer := wire.ACEID(strings.Repeat("a", 64))
	wake := relayapi.Wake{Gateway: "https://push.example", Token: strings.Repeat("t", 22)}
	block := relayapi.Block{Peer: peer, Blocked: true, Revision: 4}
	page := `{"messages":[],"cursor":null}`
	ctx := t.Context()
	for _, c := range []struct {
		name, answer string
		call         func(c *Client, relay string) error
		method, uri  string
		body         string
		action       string
		payload      []byte
	}{
		{"unregister", okBody, func(c *Client, r string) error { return c.Unregister(ctx, r, now) },
			"POST", "/v1/unregister", "", kel.ActionUnregister, nil},
		{"descriptor", okBody, func(c *Client, r string) error { return c.PutDescriptor(ctx, r, []byte(`{"d":1}`)) },
			"POST", "/v1/descriptor", `{"d":1}`, "", nil},
		{"card", okBody, func(c *Client, r string) error { return c.PutCard(ctx, r, []byte(`{"c":1}`)) },
			"POST", "/v1/card", `{"c":1}`, "", nil},
		{"descriptor lookup", `{}`, func(c *Client, r string) error { _, err := c.Descriptor(ctx, r, peer); return err },
			"GET", "/v1/descriptor/" + peer, "", "", nil},
		{"card lookup", `{}`, func(c *Client, r string) error { _, err := c.Card(ctx, r, peer); return err },
			"GET", "/v1/card/" + peer, "", "", nil},
		{"handle lookup", `{}`, func(c *Client, r string) error { _, err := c.Handle(ctx, r, "alice-bot"); return err },
			"GET", "/v1/handles/alice-bot", "", "", nil},
		{"directory", `{"cards":[],"cursor":null}`, func(c *Client, r string) error {
			_, err := c.Directory(ctx, r, relayapi.Directory{Tag: "a b", Profile: "ace:text:1", Cursor: "&", Limit: 7})
			return err
		}, "GET", "/v1/cards?cursor=%26&limit=7&profile=ace%3Atext%3A1&tag=a+b", "", "", nil},
		{"directory, first page", `{"cards":[],"cursor":null}`, func(c *Client, r string) error {
			_, err := c.Directory(ctx, r, relayapi.Directory{})
			return err
		}, "GET", "/v1/cards", "", "", nil},
		{"send", okBody, func(c *Client, r string) error { return c.Post(ctx, r, []byte(`{"p":1}`), []byte(`{"q":2}`)) },
			"POST", "/v1/send", `{"packet":{"p":1},"permit":{"q":2}}`, "", nil},
		{"send to a stranger", okBody, func(c *Client, r string) error { return c.Post(ctx, r, []byte(`{"p":1}`), nil) },
			"POST", "/v1/send", `{"packet":{"p":1}}`, "", nil},
		{"inbox", page, func(c *Client, r string) error { _, err := c.Inbox(ctx, r, "5-1", 10, now); return err },
			"GET", "/v1/inbox?limit=10&since=5-1", "", kel.ActionInbox, relayapi.InboxPayload("5-1", 10)},
		{"ack", okBody, func(c *Client, r string) error { return c.Ack(ctx, r, "5-1", now) },
			"POST", "/v1/inbox/ack?through=5-1", "", kel.ActionInboxAck, relayapi.AckPayload("5-1")},
		{"block", okBody, func(c *Client, r string) error { return c.Block(ctx, r, block, now) },
			"POST", "/v1/blocks", string(block.Body()), kel.ActionBlock, relayapi.BlockPayload(peer, true, 4)},
		{"wake", okBody, func(c *Client, r string) error { return c.SetWake(ctx, r, wake, now) },
			"PUT", "/v1/wake", string(wake.Body()), kel.ActionWake, relayapi.WakePayload(wake.Gateway, wake.Token)},
		{"delete wake", okBody, func(c *Client, r string) error { return c.DeleteWake(ctx, r, now) },
			"DELETE", "/v1/wake", "", kel.ActionWake, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			relay := newRelay(t, status(200, c.answer))
			client, _ := newClient(t, id)
			must(t, c.call(client, relay.URL))
			got := relay.seen()
			if len(got) != 1 || got[0].method != c.method || got[0].uri != c.uri || got[0].body != c.body {
				t.Fatalf("got %q", got)
			}
			if hasBody := got[0].header.Get("Content-Type") == relayapi.MediaJSON; hasBody != (c.body != "") {
				t.Error("content type")
			}
			h, err := relayapi.ParseHeaders(got[0].header)
			if c.action == "" {
				if err == nil {
					t.Error("an anonymous request is signed")
				}
				return
			}
			must(t, err)
			must(t, h.Verify(c.action, c.payload, relay.URL, id.State(), now))
		})
	}
}

func TestRegister(t *testing.T) {
	id := newIdentity(t)
	relay := newRelay(t, status(200, `{"ok":true,"status":"refreshed"}`))
	client, _ := newClient(t, id)
	got, err := client.Register(t.Context(), relay.URL, now)
	if err != nil || got != relayapi.Refreshed {
		t.Fatal(got, err)
	}
	request := relay.seen()[0]
	_, err = relayapi.VerifyRegistrationBytes([]byte(request.body), relay.URL, now, relayapi.Options{URLs: wire.Development})
	if err != nil || request.uri != "/v1/register" {
		t.Fatal(request.uri, err)
	}
}

func TestRelayUnderAPath(t *testing.T) {
	relay := newRelay(t, status(200, okBody))
	client, _ := newClient(t, newIdentity(t))
	must(t, client.Ack(t.Context(), relay.URL+"/r/1", "5-1", now))
	got := relay.seen()[0]
	if got.uri != "/r/1/v1/inbox/ack?through=5-1" || got.header.Get("X-ACE-Audience") != relay.URL+"/r/1" {
		t.Fatal(got)
	}
}

func TestNothingIsSentForBadArguments(t *testing.T) {
	relay := newRelay(t, status(200, okBody))
	client, _ := newClient(t, newIdentity(t))
	anonymous := client.As(nil)
	ctx := t.Context()
	for name, err := range map[string]error{
		"relay with a slash": client.PutCard(ctx, relay.URL+"/", nil),
		"relay no url":       client.PutCard(ctx, "relay.example", nil),
		"http elsewhere":     client.PutCard(ctx, "http://relay.example", nil),
		"since":              second(client.Inbox(ctx, relay.URL, "5", 10, now)),
		"limit":              second(client.Inbox(ctx, relay.URL, "-", 101, now)),
		"through":            client.Ack(ctx, relay.URL, "-", now),
		"ace id":             second(client.Descriptor(ctx, relay.URL, "../../health")),
		"handle":             second(client.Handle(ctx, relay.URL, "a/b")),
		"clock":              client.Ack(ctx, relay.URL, "1-0", -1),
		"large":              client.Post(ctx, relay.URL, make([]byte, wire.MaxSendBodyBytes), nil),
		"listen since":       client.Listen(ctx, relay.URL, Listener{Since: "x", Clock: clock}),
	} {
		if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"ack":      anonymous.Ack(ctx, relay.URL, "1-0", now),
		"register": second(anonymous.Register(ctx, relay.URL, now)),
		"listen":   anonymous.Listen(ctx, relay.URL, Listener{Since: "-", Clock: clock}),
	} {
		if fault.CodeOf(err) != fault.IdentityUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := relay.seen(); len(got) != 0 {
		t.Fatalf("sent %v", got)
	}
}

func second[T any](_ T, err error) error { return err }

func clock() int64 { return now }

// TestMisbehavingRelay covers answers that no honest relay gives.
func TestMisbehavingRelay(t *testing.T) {
	peer := wire.ACEID(strings.Repeat("a", 64))
	long := func(n int) string { return `{"ok":true,"x":"` + strings.Repeat("x", n) + `"}` }
	lookup := func(ctx context.Context, c *Client, r string) error { return second(c.Descriptor(ctx, r, peer)) }
	command := func(ctx context.Context, c *Client, r string) error { return c.Ack(ctx, r, "5-1", now) }
	inbox := func(ctx context.Context, c *Client, r string) error { return second(c.Inbox(ctx, r, "-", 1, now)) }
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		call   func(ctx context.Context, c *Client, relay string) error
		code   fault.Code
	}{
		{"short answer too long", status(200, long(maxShortBody)), command, fault.RelayProtocolError},
		{"lookup too long", status(200, long(maxLookupBody)), lookup, fault.RelayProtocolError},
		{"page too long", status(200, long(wire.MaxPageBytes)), inbox, fault.RelayProtocolError},
		{"object too deep", status(200, nested(33)), lookup, fault.RelayProtocolError},
		{"answer too deep", status(200, `{"ok":true,"x":`+nested(36)+`}`), command, fault.RelayProtocolError},
		{"packet too deep", status(200, `{"messages":[{"streamId":"1-0","packet":`+nested(33)+`}],"cursor":null}`), inbox, fault.RelayProtocolError},
		{"more entries than asked for", status(200, `{"messages":[{"streamId":"1-0","packet":1},{"streamId":"2-0","packet":1}],"cursor":null}`), inbox, fault.RelayProtocolError},
		{"no json", status(200, "<html>"), command, fault.RelayProtocolError},
		{"invalid utf-8", status(200, "{\"ok\":true,\"x\":\"\xff\"}"), command, fault.RelayProtocolError},
		{"not ok", status(200, `{"ok":false}`), command, fault.RelayProtocolError},
		{"another content type", status(200, okBody, "Content-Type", "text/html"), command, fault.RelayProtocolError},
		{"charset", status(200, okBody, "Content-Type", "Application/JSON ; charset=utf-8"), command, ""},
		{"compressed", status(200, okBody, "Content-Encoding", "gzip"), command, ""}, // not asked for, not undone
		{"no content", status(204, ""), command, fault.RelayProtocolError},
		{"created", status(201, okBody), command, fault.RelayProtocolError},
		{"switching protocols", status(101, "", "Connection", "Upgrade", "Upgrade", "x"), command, fault.RelayProtocolError},
		{"status 999", status(999, okBody), command, fault.RelayProtocolError},
		{"cut short", cutBody, command, fault.RelayUnavailable},
		{"closed at once", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, command, fault.RelayUnavailable},
		{"large headers", status(200, okBody, "X-Large", strings.Repeat("x", 128<<10)), command, fault.RelayUnavailable},
		{"long error", status(403, long(maxShortBody)), command, fault.RelayRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			relay := newRelay(t, c.answer)
			client, _ := newClient(t, newIdentity(t))
			wantCode(t, c.call(t.Context(), client, relay.URL), c.code)
		})
	}
}

func cutBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", relayapi.MediaJSON)
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, okBody)
}

func TestSlowRelay(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no answer": hang,
		"half an answer": func(w http.ResponseWriter, req *http.Request) {
			status(200, `{"ok":`)(w, req)
			w.(http.Flusher).Flush()
			hang(w, req)
		},
	} {
		t.Run(name, func(t *testing.T) {
			relay := newRelay(t, answer)
			client := New(Config{Identity: newIdentity(t), URLs: wire.Development, Timeout: 50 * time.Millisecond})
			defer client.Close()
			wantCode(t, client.Ack(t.Context(), relay.URL, "1-0", now), fault.RelayUnavailable)
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	target := newRelay(t, status(200, okBody))
	for _, code := range []int{301, 302, 303, 307, 308} {
		relay := newRelay(t, status(code, "", "Location", target.URL+"/v1/inbox/ack"))
		client, _ := newClient(t, newIdentity(t))
		err := client.Ack(t.Context(), relay.URL, "1-0", now)
		wantCode(t, err, fault.RelayProtocolError)
		var e *fault.Error
		if errors.As(err, &e); e.Status != code {
			t.Errorf("status %d", e.Status)
		}
	}
	if got := target.seen(); len(got) != 0 {
		t.Fatalf("followed: %v", got)
	}
}

func TestReplayIsRetriedOnceWithAFreshNonce(t *testing.T) {
	replay := status(409, `{"error":"replay"}`)
	id := newIdentity(t)
	for _, c := range []struct {
		name     string
		answers  []http.HandlerFunc
		requests int
		code     fault.Code
	}{
		{"accepted", []http.HandlerFunc{replay, status(200, okBody)}, 2, ""},
		{"again", []http.HandlerFunc{replay}, 2, fault.RelayRejected},
		{"another conflict", []http.HandlerFunc{status(409, `{"error":"future_seq"}`)}, 1, fault.RelayRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			relay := newRelay(t, c.answers...)
			client, _ := newClient(t, id)
			wantCode(t, client.Ack(t.Context(), relay.URL, "1-0", now), c.code)
			nonces := map[string]bool{}
			for _, r := range relay.seen() {
				h, err := relayapi.ParseHeaders(r.header)
				must(t, err)
				must(t, h.Verify(kel.ActionInboxAck, relayapi.AckPayload("1-0"), relay.URL, id.State(), now))
				nonces[h.Nonce] = true
			}
			if len(relay.seen()) != c.requests || len(nonces) != c.requests {
				t.Fatalf("%d requests, %d nonces", len(relay.seen()), len(nonces))
			}
		})
	}
	relay := newRelay(t, replay)
	client, _ := newClient(t, id)
	wantCode(t, client.PutCard(t.Context(), relay.URL, []byte("{}")), fault.RelayRejected)
	if got := len(relay.seen()); got != 1 {
		t.Errorf("a request without a nonce was made %d times", got)
	}
}

func TestErrorKeepsWhatTheRelaySaid(t *testing.T) {
	relay := newRelay(t, status(429, `{"error":"recipient_inbox_full","message":"x"}`, "Retry-After", "17"))
	client, _ := newClient(t, nil)
	err := client.Post(t.Context(), relay.URL, []byte("{}"), nil)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.RelayUnavailable || e.Status != 429 || e.Remote != "recipient_inbox_full" || e.RetryAfter != 17 {
		t.Fatalf("%#v", e)
	}
	if got := ResponseError(503, nil, strings.Repeat("9", 30)).RetryAfter; got != wire.MaxInt {
		t.Errorf("Retry-After %d", got)
	}
	if got := ResponseError(400, []byte(`{"error":"\u001b[2J`+strings.Repeat("x", 1000)+`"}`), "").Error(); strings.ContainsRune(got, 0x1b) || len(got) > 200 {
		t.Errorf("message %q", got)
	}
}

func TestUnreachableRelay(t *testing.T) {
	relay := newRelay(t, hang)
	relay.Close()
	client, _ := newClient(t, nil)
	wantCode(t, client.PutCard(t.Context(), relay.URL, []byte("{}")), fault.RelayUnavailable)
}

func TestCancelledExchange(t *testing.T) {
	relay := newRelay(t, hang)
	client, _ := newClient(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := client.PutCard(ctx, relay.URL, []byte("{}"))
	wantCode(t, err, fault.RelayUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
