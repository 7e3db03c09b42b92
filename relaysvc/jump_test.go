package relaysvc_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/internal/faultdisk"
	"github.com/ace-toolkit/ace/relaysvc"
)

// TestClockJumps sets the relay's clock an hour ahead and back, and an hour back
// and ahead, with a sweep each time: no nonce is accepted again, no entry is
// lost, streams go on.
func TestClockJumps(t *testing.T) {
	for name, jump := range map[string]int64{"ahead": 3600, "back": -3600} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *relaysvc.Config) { c.Elapsed = func() int64 { return 0 } })
			a := r.published()
			from := strangerID()
			p := a.packet(from)
			r.expect("ok", r.send(p, a.permit(from)))
			stranger := a.packet(strangerID())
			r.expect("ok", r.send(stranger, nil))
			spent := call{method: "GET", path: "/v1/inbox", header: a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100))}
			r.expect("ok", r.do(spent))
			l := a.listen("-")
			l.want("connected", "")
			l.want("catchup", string(p))
			l.want("catchup", string(stranger))

			r.now.Add(jump)
			must(t, r.server.Operator().Collect(t.Context()))
			during := a.packet(from)
			r.expect("ok", r.send(during, a.permit(from)))
			l.want("message", string(during))
			r.expect("stale_timestamp", r.do(spent))

			r.now.Add(-jump)
			must(t, r.server.Operator().Collect(t.Context()))
			r.expect("replay", r.do(spent))
			same(t, texts(a.messages()), []string{string(p), string(stranger), string(during)})
			after := a.packet(from)
			r.expect("ok", r.send(after, a.permit(from)))
			l.want("message", string(after))
		})
	}
}

// TestServeEndsWithTheStore lets an fsync fail: the relay ends by itself and
// says why, and answers no request with ok after the failure.
func TestServeEndsWithTheStore(t *testing.T) {
	var failing atomic.Bool
	r := &relay{t: t, path: filepath.Join(t.TempDir(), "data", "relay.db")}
	defer faultdisk.Watch(filepath.Dir(r.path), func(op faultdisk.Op) int32 {
		if op.Kind == faultdisk.Sync && failing.Load() {
			return faultdisk.FsyncFailed
		}
		return faultdisk.OK
	})()
	r.now.Store(epoch)
	r.run(nil)
	a := r.registered()
	from := strangerID()
	l := a.listen("-")
	l.want("connected", "")
	p := a.packet(from)
	r.expect("ok", r.send(p, a.permit(from)))
	l.want("message", string(p))
	failing.Store(true)
	ack := call{method: "POST", path: "/v1/inbox/ack?through=1-1", header: a.signed(kel.ActionInboxAck, relayapi.AckPayload("1-1"))}
	if got, err := r.try(ack); err == nil {
		got.expect(t, "internal_error")
	}
	if got, err := r.try(sending("", a.packet(from), a.permit(from))); err == nil {
		got.expect(t, "internal_error")
	}
	if err := <-r.ended; fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("the relay ended with %v", err)
	}
	l.want("drain", "")
	l.wantEnd()
	failing.Store(false)
	must(t, r.server.Close())

	r.run(nil)
	defer r.stop()
	// What failed to reach the disk for sure may be there all the same.
	if got := texts(a.messages()); len(got) > 1 || len(got) == 1 && got[0] != string(p) {
		t.Fatalf("%d entries, and not the one that was answered with ok", len(got))
	}
}

// TestKnownKEL sends under a KEL that the relay has in memory, while the
// recipient gets another: only what the registered one allows goes in, and the
// order of the chapter holds.
func TestKnownKEL(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	from, other := strangerID(), strangerID()
	first, old := a.packet(from), a.permit(from)
	r.expect("ok", r.send(first, old))
	r.expect("ok", r.send(a.packet(from), old))

	// A bad permit hides no duplicate, and no block.
	r.expect("ok", r.send(first, []byte(`{"not":"a permit"}`)))
	r.expect("not_permitted", r.send(a.packet(from), []byte(`{"not":"a permit"}`)))
	r.expect("not_permitted", r.send(a.packet(other), old))

	a.delegate(epoch - 100)
	r.expect("ok", a.register(epoch+1))
	r.expect("ok", r.send(first, old))
	r.expect("not_permitted", r.send(a.packet(from), old))
	r.expect("ok", r.send(a.packet(from), a.permit(from)))

	r.expect("ok", a.block(from, true, 1))
	r.expect("not_permitted", r.send(first, a.permit(from)))
	r.expect("ok", a.block(from, false, 2))
	r.expect("ok", a.unregister(epoch+2))
	r.expect("not_permitted", r.send(a.packet(from), a.permit(from)))
	r.expect("ok", a.register(epoch+3))
	r.expect("ok", r.send(first, a.permit(from)))
	// The permit is known by now, and still it ends.
	short := a.permit(from)
	r.expect("ok", r.send(a.packet(from), short))
	r.now.Add(3600)
	r.expect("not_permitted", r.send(a.packet(from), short))
	if n := len(a.messages()); n != 2 {
		t.Fatalf("%d entries", n)
	}
}

// TestSharesAndBudgets fills a sender's share, and the budget of the network
// that a recipient registered from.
func TestSharesAndBudgets(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.SenderEntries, c.Limits.NetworkQueued = 2, 60_000
	})
	a, b := r.published(), r.registered()
	from, other := strangerID(), strangerID()
	for range 2 {
		r.expect("ok", r.send(a.packet(from), a.permit(from)))
	}
	r.expect("recipient_inbox_full", r.send(a.packet(from), a.permit(from)))
	r.expect("ok", r.send(a.packet(other), a.permit(other)))
	r.expect("ok", r.send(b.packet(from), b.permit(from)))
	big := opaque(other, b.aceID(), epoch, 25_000)
	r.expect("rate_limited", r.send(big, b.permit(other)))
	r.expect("rate_limited", r.send(opaque(strangerID(), a.aceID(), epoch, 25_000), nil))
	r.expect("ok", a.ack("99-0"))
	r.expect("ok", r.send(big, b.permit(other)))
}

// TestHTTP10 listens with a client that knows no chunks.
func TestHTTP10(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	w := r.tap(t)
	request := "GET /v1/listen HTTP/1.0\r\n"
	for name, values := range a.signed(kel.ActionListen, relayapi.ListenPayload("-")) {
		request += name + ": " + values[0] + "\r\n"
	}
	w.write(request + "\r\n")
	from := strangerID()
	p := a.packet(from)
	r.expect("ok", r.send(p, a.permit(from)))
	r.stop()
	resp, err := http.ReadResponse(w.in, nil)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	events := strings.Split(string(body), "\n\n")
	if len(resp.TransferEncoding) > 0 || resp.Header.Get("Content-Type") != "text/event-stream" || len(events) != 4 ||
		!strings.Contains(events[1], string(p)) || !strings.HasPrefix(events[2], "event: drain") {
		t.Fatalf("%v %q", resp.Header, body)
	}
}
