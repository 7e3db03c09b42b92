package relaysvc_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// TestAcceptedSurvivesRestart stops a relay and starts it again on its store.
func TestAcceptedSurvivesRestart(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	from := strangerID()
	var want []string
	for range 3 {
		p := a.packet(from)
		r.expect("ok", r.send(p, a.permit(from)))
		want = append(want, string(p))
	}
	stranger := a.packet(from)
	r.expect("ok", r.send(stranger, nil))
	read := call{method: "GET", path: "/v1/inbox", header: a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100))}
	r.expect("ok", r.do(read))
	before := a.messages()
	r.stop()

	r.run(nil)
	r.expect("replay", r.do(read))
	after := a.messages()
	same(t, texts(after), append(want, string(stranger)))
	for i := range after {
		if after[i].StreamID != before[i].StreamID {
			t.Fatalf("entry %d was %s and is %s", i, before[i].StreamID, after[i].StreamID)
		}
	}
	if got := r.do(call{method: "GET", path: "/v1/card/" + a.aceID()}); got.status != 200 {
		t.Fatalf("card after restart: %d", got.status)
	}
}

func TestDuplicates(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	from := strangerID()
	p := a.packet(from)
	spaced := []byte(strings.Replace(string(p), `"ace":"1"`, ` "ace" : "1" `, 1))
	for _, body := range [][]byte{p, p, spaced} {
		r.expect("ok", r.send(body, a.permit(from)))
		r.expect("ok", r.send(body, nil))
	}
	entries := a.messages()
	same(t, texts(entries), []string{string(p)})
	r.expect("ok", a.ack(entries[0].StreamID))
	r.expect("ok", r.send(p, a.permit(from)))
	if again := a.messages(); len(again) != 1 || again[0].StreamID == entries[0].StreamID {
		t.Fatalf("after the acknowledgement: %v", again)
	}
}

func TestStrangerAllowances(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	network := func(n int) string { return fmt.Sprintf("198.51.%d.7", n) }
	for n := range 8 {
		for range 2 {
			r.expect("ok", r.sendFrom(network(n), a.packet(strangerID()), nil))
		}
		if n < 7 {
			r.expect("recipient_inbox_full", r.sendFrom(network(n), a.packet(strangerID()), nil))
			// Another address of the same /24, and what a client puts in front.
			r.expect("recipient_inbox_full", r.sendFrom("203.0.113.9, "+strings.TrimSuffix(network(n), "7")+"250", a.packet(strangerID()), nil))
		}
	}
	r.expect("recipient_inbox_full", r.sendFrom(network(100), a.packet(strangerID()), nil))
	from := strangerID()
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
	if n := len(a.messages()); n != 17 {
		t.Fatalf("%d entries", n)
	}

	// 07#send: a stranger entry is kept for a day, one with a permit a week.
	r.now.Add(wire.ContactRequestTTLSeconds - 1)
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	r.expect("recipient_inbox_full", r.sendFrom(network(100), a.packet(strangerID()), nil))
	r.now.Add(1)
	r.expect("ok", r.sendFrom(network(100), a.packet(strangerID()), nil))
	if n := len(a.messages()); n != 2 {
		t.Fatalf("%d entries after a day", n)
	}
	r.now.Store(epoch + wire.OfflineWindowSeconds)
	if n := len(a.messages()); n != 0 {
		t.Fatalf("%d entries after a week", n)
	}
}

func TestStrangerRates(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.StrangersFrom = 3 })
	a, b := r.published(), r.published()
	r.expect("ok", r.send(a.packet(strangerID()), nil))
	r.expect("ok", r.send(a.packet(strangerID()), nil))
	r.expect("ok", r.send(b.packet(strangerID()), nil))
	r.expect("rate_limited", r.send(b.packet(strangerID()), nil))
	// The allowance comes before the rates, and a recipient's refusal before both.
	r.expect("recipient_inbox_full", r.send(a.packet(strangerID()), nil))
	r.expect("not_permitted", r.send(r.registered().packet(strangerID()), nil))
	from := strangerID()
	r.expect("ok", r.send(b.packet(from), b.permit(from)))
	r.now.Add(20)
	r.expect("ok", r.send(b.packet(strangerID()), nil))

	r = start(t, func(c *relaysvc.Config) { c.Limits.StrangersTo = 2 })
	a, b = r.published(), r.published()
	r.expect("ok", r.sendFrom("198.51.100.1", a.packet(strangerID()), nil))
	r.expect("ok", r.sendFrom("198.51.101.1", a.packet(strangerID()), nil))
	r.expect("rate_limited", r.sendFrom("198.51.102.1", a.packet(strangerID()), nil))
	r.expect("ok", r.sendFrom("198.51.102.1", b.packet(strangerID()), nil))

	r = start(t, func(c *relaysvc.Config) { c.Limits.StrangersTo = wire.StrangerAllowance })
	a = r.published()
	for i := range wire.StrangerAllowance {
		r.expect("ok", r.sendFrom(fmt.Sprintf("198.51.%d.1", i), a.packet(strangerID()), nil))
	}
	r.expect("recipient_inbox_full", r.sendFrom("203.0.113.1", a.packet(strangerID()), nil))
}

func TestQueueBounds(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.QueueEntries, c.Limits.SenderEntries = 2, 2 })
	a := r.published()
	from := strangerID()
	for range 2 {
		r.expect("ok", r.send(a.packet(from), a.permit(from)))
	}
	r.expect("recipient_inbox_full", r.send(a.packet(from), a.permit(from)))
	r.expect("ok", r.send(a.packet(from), nil))
	r.expect("ok", a.ack(a.messages()[0].StreamID))
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
	r.expect("recipient_inbox_full", r.send(a.packet(from), a.permit(from)))
	r.now.Add(wire.OfflineWindowSeconds)
	r.expect("ok", r.send(a.packet(from), a.permit(from)))

	r = start(t, func(c *relaysvc.Config) { c.Limits.QueueBytes, c.Limits.SenderBytes = 20_000, 20_000 })
	a = r.registered()
	r.expect("ok", r.send(opaque(from, a.aceID(), epoch, 6000), a.permit(from)))
	r.expect("recipient_inbox_full", r.send(opaque(from, a.aceID(), epoch, 6000), a.permit(from)))
}

// TestConcurrentSenders sends at once what is to be queued and what is not.
func TestConcurrentSenders(t *testing.T) {
	r := start(t, nil)
	a, b := r.published(), r.registered()
	const n = 40
	type attempt struct {
		packet, permit []byte
		want           string
	}
	attempts := make([]attempt, n)
	var want []string
	for i := range attempts {
		from := strangerID()
		x := attempt{packet: a.packet(from), permit: a.permit(from), want: "ok"}
		if i%5 == 0 {
			x.permit, x.want = b.permit(from), "not_permitted"
		} else {
			want = append(want, string(x.packet))
		}
		attempts[i] = x
	}
	answers, errs := make([]answer, n), make([]error, n)
	var group sync.WaitGroup
	for i, x := range attempts {
		group.Go(func() { answers[i], errs[i] = r.try(sending("", x.packet, x.permit)) })
	}
	group.Wait()
	for i, x := range attempts {
		must(t, errs[i])
		answers[i].expect(t, x.want)
	}
	got := map[string]bool{}
	for _, e := range a.messages() {
		got[string(e.Packet.Canonical())] = true
	}
	if len(got) != len(want) {
		t.Fatalf("%d packets queued, want %d", len(got), len(want))
	}
	for _, p := range want {
		if !got[p] {
			t.Fatal("an accepted packet is not in the queue")
		}
	}
}

func TestRotationVoidsPermits(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	from := strangerID()
	permit := a.permit(from)
	r.expect("ok", r.send(a.packet(from), permit))
	a.delegate(epoch)
	r.expect("ok", a.register(epoch+1))
	r.expect("not_permitted", r.send(a.packet(from), permit))
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
	r.expect("not_permitted", r.send(a.packet(from), nil))
}

func TestHandleClaims(t *testing.T) {
	r := start(t, nil)
	claim := func(a *agent, handle, network string) answer {
		return r.do(call{method: "POST", path: "/v1/card", body: a.card(descriptor.CardRecord{Handle: handle}, -1).Raw(), network: network})
	}
	for i := range 8 {
		r.now.Store(epoch + int64(i))
		r.expect("ok", claim(r.registered(), fmt.Sprintf("name-%c", 'a'+i), "198.51.100.1"))
	}
	a := r.registered()
	got := claim(a, "another", "198.51.100.2")
	r.expect("rate_limited", got)
	if after := got.header.Get("Retry-After"); after != "86393" {
		t.Fatalf("Retry-After %s, want the seconds until the first claim is a day old", after)
	}
	r.expect("handle_taken", claim(a, "name-a", "198.51.100.2"))
	r.expect("ok", claim(a, "another", "198.51.101.2"))
	r.now.Store(epoch + 86400)
	r.expect("ok", claim(r.registered(), "one-more", "198.51.100.1"))
	r.expect("rate_limited", claim(r.registered(), "too-many", "198.51.100.1"))
}

func TestForwardedAddressOfAStranger(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.TrustedProxies = nil })
	a := r.published()
	for i := range 2 {
		r.expect("ok", r.sendFrom(fmt.Sprintf("198.51.%d.1", i), a.packet(strangerID()), nil))
	}
	r.expect("recipient_inbox_full", r.sendFrom("198.51.9.1", a.packet(strangerID()), nil))
}

func TestUnregister(t *testing.T) {
	r := start(t, nil)
	a := r.published()
	enemy := strangerID()
	r.expect("ok", r.send(a.packet(enemy), a.permit(enemy)))
	r.expect("ok", a.block(enemy, true, 3))
	r.expect("ok", a.unregister(epoch+5))
	r.expect("not_registered", a.inbox())
	r.expect("not_permitted", r.send(a.packet(strangerID()), nil))
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/card/" + a.aceID()}))
	r.stop()

	// The KEL and the barrier of a retired identity are checked after a
	// restart as before.
	r.run(nil)
	r.expect("identity_conflict", a.register(epoch+5))
	fork := *a
	fork.state = a.state
	longer := *a
	longer.delegate(epoch)
	r.expect("ok", longer.register(epoch+6))
	r.expect("stale_seq", a.register(epoch+7))
	if n := len(longer.messages()); n != 0 {
		t.Fatalf("%d entries of the earlier registration", n)
	}
	r.expect("ok", longer.block(enemy, false, 1))
}

func TestDirectoryPages(t *testing.T) {
	r := start(t, nil)
	const n = 5
	for range n {
		a := r.registered()
		r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
		r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Listed: true, Card: descriptor.Card{Tags: []string{"t"}}}, -1).Raw()))
	}
	for _, filter := range []string{"", "tag=t&", "profile=x:profile&", "tag=t&profile=x:profile&"} {
		var seen []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			path := "/v1/cards?" + filter + "limit=2"
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			got := r.do(call{method: "GET", path: path})
			r.expect("ok", got)
			page, err := relayapi.ParseDirectoryPage(got.body)
			must(t, err)
			for _, c := range page.Cards {
				card, _ := c.Get("card")
				id, _ := card.Get("aceId")
				text, _ := id.AsString()
				if len(seen) > 0 && text <= seen[len(seen)-1] {
					t.Fatal("not in the order of ACE IDs")
				}
				seen = append(seen, text)
			}
			cursor = page.Cursor
			if pages > n {
				t.Fatal("the directory does not end")
			}
		}
		if len(seen) != n {
			t.Fatalf("%q lists %d agents, want %d", filter, len(seen), n)
		}
	}
	for _, query := range []string{"tag=other", "profile=x:other"} {
		got := r.do(call{method: "GET", path: "/v1/cards?" + query})
		if string(got.body) != `{"cards":[],"cursor":null}` {
			t.Fatalf("%s: %s", query, got.body)
		}
	}
	r.expect("invalid_argument", r.do(call{method: "GET", path: "/v1/cards?cursor=abc"}))
}

// TestNotPermittedIsUniform checks that a sender cannot tell the reasons of
// not_permitted apart (07#send).
func TestNotPermittedIsUniform(t *testing.T) {
	r := start(t, nil)
	open, closed, unknown := r.published(), r.registered(), r.newAgent()
	from, enemy := strangerID(), strangerID()
	r.expect("ok", open.block(enemy, true, 1))
	old := open.permit(from)
	other := closed.permit(from)
	var bodies []string
	for _, a := range []answer{
		r.send(unknown.packet(from), nil),
		r.send(unknown.packet(from), old),
		r.send(closed.packet(from), nil),
		r.send(open.packet(enemy), nil),
		r.send(open.packet(enemy), open.permit(enemy)),
		r.send(open.packet(from), other),
		r.send(open.packet(from), []byte(`{"issuer":"nobody"}`)),
		r.send(open.packet(from), with(t, old, "expiresAt", wire.NewInt(epoch))),
	} {
		r.expect("not_permitted", a)
		bodies = append(bodies, string(a.body))
	}
	if same := slices.Compact(bodies); len(same) != 1 {
		t.Fatalf("different answers: %q", same)
	}
}
