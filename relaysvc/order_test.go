package relaysvc_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// The tests of this file send requests with two faults at once: the first
// check of the chapter decides.

const elsewhere = "https://relay.example"

func TestOrderAuthentication(t *testing.T) {
	r := start(t, nil)
	a, stranger := r.registered(), r.newAgent()
	a2 := *a
	a2.delegate(epoch - 500)
	payload := relayapi.InboxPayload("-", 100)
	spent := suite.NewNonce()
	get := func(path string, h http.Header) answer { return r.do(call{method: "GET", path: path, header: h}) }
	r.expect("ok", get("/v1/inbox", a.signedAt(kel.ActionInbox, payload, r.url, spent, epoch)))
	spoilt := func(h http.Header, name, value string) http.Header {
		h.Set(name, value)
		return h
	}
	forged := wire.EncodeBase64(suite.RandomBytes(wire.SignatureBytes))
	fresh := suite.NewNonce
	for _, c := range []struct {
		name, want, path string
		header           http.Header
	}{
		{"argument, registration", "invalid_argument", "/v1/inbox?limit=0", stranger.signed(kel.ActionInbox, payload)},
		{"query, registration", "invalid_argument", "/v1/inbox?since=%zz", stranger.signed(kel.ActionInbox, payload)},
		{"parameter twice, registration", "invalid_argument", "/v1/inbox?limit=1&limit=1", stranger.signed(kel.ActionInbox, payload)},
		{"header, registration", "invalid_argument", "/v1/inbox", spoilt(stranger.signed(kel.ActionInbox, payload), "X-ACE-Nonce", "x")},
		{"registration, audience", "not_registered", "/v1/inbox", stranger.signedAt(kel.ActionInbox, payload, elsewhere, fresh(), epoch)},
		{"seq, audience", "future_seq", "/v1/inbox", a2.signedAt(kel.ActionInbox, payload, elsewhere, fresh(), epoch)},
		{"seq below, audience", "stale_seq", "/v1/inbox", spoilt(a.signedAt(kel.ActionInbox, payload, elsewhere, fresh(), epoch), "X-ACE-Seq", "0")},
		{"audience, window", "invalid_signature", "/v1/inbox", a.signedAt(kel.ActionInbox, payload, elsewhere, fresh(), epoch-301)},
		{"window, signature", "stale_timestamp", "/v1/inbox", spoilt(a.signedAt(kel.ActionInbox, payload, r.url, fresh(), epoch-301), "X-ACE-Signature", forged)},
		{"signature, nonce", "invalid_signature", "/v1/inbox", spoilt(a.signedAt(kel.ActionInbox, payload, r.url, spent, epoch), "X-ACE-Signature", forged)},
		{"nonce alone", "replay", "/v1/inbox", a.signedAt(kel.ActionInbox, payload, r.url, spent, epoch)},
	} {
		t.Run(c.name, func(t *testing.T) { get(c.path, c.header).expect(t, c.want) })
	}
}

func TestOrderRegister(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	short := *a
	a.delegate(epoch - 500)
	r.expect("ok", a.register(epoch+10))
	b := r.newAgent()
	at := func(ts int64, audience string) []byte {
		x, err := relayapi.BuildRegistration(b.id(), audience, ts)
		must(t, err)
		return x.Raw
	}
	forged := wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object()
	for _, c := range []struct {
		name, want string
		body       []byte
	}{
		{"shape, audience", "invalid_registration", with(t, at(epoch, elsewhere), "extra", wire.NewInt(1))},
		{"audience, window", "invalid_signature", at(epoch-301, elsewhere)},
		{"window, kel", "stale_timestamp", with(t, at(epoch-301, r.url), "kel", wire.NewArray())},
		{"kel, aceId", "invalid_kel", with(t, with(t, at(epoch, r.url), "kel", wire.NewArray()), "aceId", wire.NewString(strangerID()))},
		{"aceId, signature", "invalid_registration", with(t, with(t, at(epoch, r.url), "signature", forged), "aceId", wire.NewString(strangerID()))},
		{"signature, stored record", "invalid_authorization", with(t, short.registration(epoch), "signature", forged)},
		{"kel outcome, timestamp", "stale_seq", short.registration(epoch)},
	} {
		t.Run(c.name, func(t *testing.T) { r.do(call{method: "POST", path: "/v1/register", body: c.body}).expect(t, c.want) })
	}
}

func TestOrderPublish(t *testing.T) {
	r := start(t, nil)
	a, stranger := r.registered(), r.newAgent()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(epoch+10).Raw()))
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{}, epoch+10).Raw()))
	longer := *a
	longer.delegate(epoch - 500)
	holder := r.registered()
	r.expect("ok", holder.post("/v1/card", holder.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()))
	forged := wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object()
	for _, c := range []struct {
		name, want, path string
		body             []byte
	}{
		{"verification, registration", "invalid_authorization", "/v1/descriptor", within(t, stranger.descriptor(-1).Raw(), "descriptor", "signature", forged)},
		{"registration, relays", "not_registered", "/v1/descriptor", stranger.descriptorAt(-1, elsewhere).Raw()},
		{"kel, relays", "kel_conflict", "/v1/descriptor", longer.descriptorAt(-1, elsewhere).Raw()},
		{"relays, issuedAt", "invalid_argument", "/v1/descriptor", a.descriptorAt(-1, elsewhere).Raw()},
		{"issuedAt alone", "stale_descriptor", "/v1/descriptor", a.descriptor(-1).Raw()},
		{"verification, registration", "invalid_authorization", "/v1/card", within(t, stranger.card(descriptor.CardRecord{}, -1).Raw(), "card", "signature", forged)},
		{"registration, handle", "not_registered", "/v1/card", stranger.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()},
		{"kel, issuedAt", "kel_conflict", "/v1/card", longer.card(descriptor.CardRecord{}, -1).Raw()},
		{"issuedAt, handle", "stale_descriptor", "/v1/card", a.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()},
		{"handle alone", "handle_taken", "/v1/card", a.card(descriptor.CardRecord{Handle: "a1ice"}, epoch+20).Raw()},
	} {
		t.Run(c.path+" "+c.name, func(t *testing.T) { r.do(call{method: "POST", path: c.path, body: c.body}).expect(t, c.want) })
	}
}

func TestOrderSend(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	closed := r.registered()
	from, enemy := strangerID(), strangerID()
	packet, hostile := a.packet(from), a.packet(enemy)
	r.expect("ok", r.send(packet, a.permit(from)))
	r.expect("ok", r.send(hostile, a.permit(enemy)))
	r.expect("ok", a.block(enemy, true, 1))
	old := opaque(from, strangerID(), epoch-wire.OfflineWindowSeconds-1, 64)
	for _, c := range []struct {
		name, want string
		body       []byte
	}{
		{"size, json", "payload_too_large", bytes.Repeat([]byte("x"), wire.MaxSendBodyBytes+1)},
		{"members, packet", "invalid_argument", with(t, relayapi.SendBody([]byte(`{}`), nil), "extra", wire.NewInt(1))},
		{"depth of the packet, permit", "invalid_packet", []byte(`{"packet":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `,"permit":null}`)},
		{"depth of the permit, packet", "invalid_packet", []byte(`{"packet":{"ace":"1"},"permit":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`)},
		{"version, members", "unsupported_version", relayapi.SendBody(with(t, with(t, packet, "ace", wire.NewString("2")), "extra", wire.NewInt(1)), nil)},
		{"packet, window", "invalid_packet", relayapi.SendBody(with(t, old, "extra", wire.NewInt(1)), nil)},
		{"window, recipient", "stale_timestamp", relayapi.SendBody(old, nil)},
		{"block, duplicate", "not_permitted", relayapi.SendBody(hostile, a.permit(enemy))},
		{"duplicate, permit", "ok", relayapi.SendBody(packet, a.permit(strangerID()))},
		{"permit of another, open recipient", "not_permitted", relayapi.SendBody(a.packet(from), closed.permit(from))},
		{"permit of null, open recipient", "not_permitted", relayapi.SendBody(a.packet(from), []byte("null"))},
		{"closed recipient", "not_permitted", relayapi.SendBody(closed.packet(from), nil)},
	} {
		t.Run(c.name, func(t *testing.T) { r.do(call{method: "POST", path: "/v1/send", body: c.body}).expect(t, c.want) })
	}
}

func TestOrderBlocksAndUnregister(t *testing.T) {
	r := start(t, nil)
	a, stranger := r.registered(), r.newAgent()
	r.expect("invalid_argument", stranger.block(stranger.aceID(), true, 1))
	r.expect("not_registered", stranger.block(a.aceID(), true, 1))
	r.expect("ok", a.block(stranger.aceID(), true, 5))
	r.expect("stale_revision", a.block(stranger.aceID(), false, 5))

	r.expect("not_registered", stranger.unregister(epoch))
	nonce := suite.NewNonce()
	early := call{method: "POST", path: "/v1/unregister", header: a.signedAt(kel.ActionUnregister, nil, r.url, nonce, epoch)}
	r.expect("identity_conflict", r.do(early))
	r.expect("replay", r.do(early))
	r.expect("ok", a.inbox())
}

// TestReplay sends each authenticated request twice: a nonce is spent across
// all actions (07#authentication).
func TestReplay(t *testing.T) {
	r := start(t, nil)
	a, peer := r.registered(), strangerID()
	var spent []string
	for _, c := range []struct {
		action, method, path string
		payload, body        []byte
	}{
		{kel.ActionListen, "GET", "/v1/listen", relayapi.ListenPayload("-"), nil},
		{kel.ActionInbox, "GET", "/v1/inbox", relayapi.InboxPayload("-", 100), nil},
		{kel.ActionInboxAck, "POST", "/v1/inbox/ack?through=1-1", relayapi.AckPayload("1-1"), nil},
		{kel.ActionBlock, "POST", "/v1/blocks", relayapi.BlockPayload(peer, true, 1), relayapi.Block{Peer: peer, Blocked: true, Revision: 1}.Body()},
		{kel.ActionUnregister, "POST", "/v1/unregister", nil, nil},
	} {
		for _, nonce := range spent {
			h := a.signedAt(c.action, c.payload, r.url, nonce, epoch+1)
			r.do(call{method: c.method, path: c.path, header: h, body: c.body}).expect(t, "replay")
		}
		nonce := suite.NewNonce()
		first := call{method: c.method, path: c.path, header: a.signedAt(c.action, c.payload, r.url, nonce, epoch+1), body: c.body}
		if c.action == kel.ActionListen {
			must(t, a.listenTo("", first.header).close())
		} else {
			r.expect("ok", r.do(first))
		}
		if c.action == kel.ActionUnregister {
			r.expect("ok", a.register(epoch+2))
		}
		r.do(first).expect(t, "replay")
		spent = append(spent, nonce)
	}
}

// TestRoutes checks that whatever is no route is refused in JSON where it
// stands: no path is cleaned and nobody is redirected.
func TestRoutes(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/v1"}, {"GET", "/v1/nothing"}, {"POST", "/v2/send"}, {"GET", "/v1/send"}, {"POST", "/v1/send/"},
		{"POST", "//v1/send"}, {"POST", "/v1//send"}, {"POST", "/v1/./send"}, {"POST", "/v1/x/../send"}, {"GET", "//health"},
		{"GET", "/health/"}, {"PUT", "/v1/wake"}, {"DELETE", "/v1/wake"}, {"PATCH", "/v1/card"}, {"GET", "/v1/card/a/b"},
		{"OPTIONS", "/v1/send"}, {"GET", "/v1/descriptor"},
	} {
		r.expect("not_found", r.do(call{method: c.method, path: c.path}))
	}
	r.expect("invalid_argument", r.do(call{method: "GET", path: "/v1/handles/"}))
	r.expect("invalid_argument", r.do(call{method: "GET", path: "/v1/descriptor/" + strings.ToUpper(strangerID())}))
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/descriptor/" + strangerID()}))
	r.expect("ok", r.do(call{method: "GET", path: "/health"}))
	// A client of net/http sends OPTIONS * for this path alone.
	star, err := http.NewRequest("OPTIONS", r.url, nil)
	must(t, err)
	star.URL.Path = "*"
	resp, err := r.client.Do(star)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	answer{resp.StatusCode, resp.Header, body}.expect(t, "not_found")
	for _, path := range []string{"/v1/register", "/v1/descriptor", "/v1/card", "/v1/send"} {
		twice := http.Header{"Content-Type": {"application/json", "text/plain"}}
		r.expect("invalid_argument", r.do(call{method: "POST", path: path, body: []byte("{}"), plain: true, header: twice}))
		r.expect("invalid_argument", r.do(call{method: "POST", path: path, body: []byte("{}"), plain: true}))
		limit := wire.MaxPublishedAgentBytes
		if path == "/v1/send" {
			limit = wire.MaxSendBodyBytes
		}
		for _, chunked := range []bool{false, true} {
			body := bytes.Repeat([]byte(" "), limit+1)
			r.expect("payload_too_large", r.do(call{method: "POST", path: path, body: body, chunked: chunked}))
			if got := r.do(call{method: "POST", path: path, body: body[:limit], chunked: chunked}); got.outcome(t) == "payload_too_large" {
				t.Fatalf("%s: %d bytes: %s", path, limit, got.body)
			}
		}
	}
}
