package relaysvc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// list stores n identities whose card records are listed and as long as they
// may be, past the checks of a publication: the relay serves what is stored.
func (r *relay) list(n int) (aceIDs []string) {
	r.t.Helper()
	r.stop()
	db, err := relaydb.Open(r.t.Context(), r.path, epoch)
	must(r.t, err)
	bundle := fmt.Appendf(nil, `{"aceId":%q,"rest":""}`, strangerID())
	bundle = append(bundle[:len(bundle)-2], strings.Repeat("x", wire.MaxPublishedAgentBytes-len(bundle))+`"}`...)
	for range n {
		id := strangerID()
		aceIDs = append(aceIDs, id)
		must(r.t, db.Register(r.t.Context(), relaydb.Registration{ACEID: id, KELEnd: id, KEL: []byte("[]"), Network: "n"}, nil))
		must(r.t, db.PublishDescriptor(r.t.Context(), relaydb.Descriptor{ACEID: id, KELEnd: id, ExpiresAt: epoch + 1000, Raw: []byte("{}")}))
		must(r.t, db.PublishCard(r.t.Context(), relaydb.Card{ACEID: id, KELEnd: id, Home: r.url, Listed: true, Raw: bundle}, 0, 0,
			func(relaydb.Bindings) (bool, error) { return false, nil }))
	}
	must(r.t, db.Close())
	return aceIDs
}

// TestUnreadDirectory asks for pages of megabytes, which takes no
// authentication, and reads none: they take no more memory than there is for
// what anybody may ask for, and none from who owns a queue.
func TestUnreadDirectory(t *testing.T) {
	configure := func(c *relaysvc.Config) {
		c.Limits.BodyMemory = 12 << 20                           // for one page and a half
		c.Timeouts.Body, c.Timeouts.Write = time.Hour, time.Hour // nobody is too slow
	}
	r := start(t, configure)
	agents := r.list(9)
	r.run(configure)
	other := r.bystander()
	page := func() answer { return r.do(call{method: "GET", path: "/v1/cards"}) }
	crawled, err := relayapi.ParseDirectoryPage(page().body)
	must(t, err)
	if len(crawled.Cards) != 7 || crawled.Cursor == "" {
		t.Fatalf("%d cards of a megabyte, cursor %q", len(crawled.Cards), crawled.Cursor)
	}

	w := r.tap(t)
	must(t, w.conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(4096))
	w.write("GET /v1/cards HTTP/1.1\r\nHost: x\r\n\r\n")
	for deadline := time.Now().Add(patience); ; {
		got := page()
		if got.status == http.StatusTooManyRequests {
			got.expect(t, "rate_limited")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a page that nobody reads takes no memory from the next")
		}
	}
	if got := r.do(call{method: "GET", path: "/v1/card/" + agents[0]}); got.status != http.StatusTooManyRequests {
		t.Fatalf("status %d for a lookup while the memory is taken", got.status)
	}
	other.isServed(t)

	w.conn.Close()
	for deadline := time.Now().Add(patience); page().status != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("the memory does not come back")
		}
	}
	got := r.do(call{method: "GET", path: "/v1/card/" + agents[0]})
	if got.status != http.StatusOK || len(got.body) != wire.MaxPublishedAgentBytes {
		t.Fatalf("status %d, %d bytes", got.status, len(got.body))
	}
}

// TestPagesWaitForMemory asks for more pages at a time than there is memory
// for: all of them come, whole and one after the other. One that has waited
// for long is told to ask again.
func TestPagesWaitForMemory(t *testing.T) {
	configure := func(c *relaysvc.Config) { c.Limits.BodyMemory = 9 << 20 }
	r := start(t, configure)
	r.list(8)
	r.run(configure)
	want := r.do(call{method: "GET", path: "/v1/cards"})
	if want.status != http.StatusOK || len(want.body) < wire.MaxPageBytes/2 {
		t.Fatalf("status %d, %d bytes", want.status, len(want.body))
	}
	got := make(chan error, 6)
	for range cap(got) {
		go func() {
			a, err := r.try(call{method: "GET", path: "/v1/cards"})
			for deadline := time.Now().Add(patience); err == nil && a.status == http.StatusTooManyRequests && time.Now().Before(deadline); {
				a, err = r.try(call{method: "GET", path: "/v1/cards"})
			}
			if err == nil && string(a.body) != string(want.body) {
				err = fmt.Errorf("status %d, %d bytes: %w", a.status, len(a.body), io.ErrUnexpectedEOF)
			}
			got <- err
		}()
	}
	for range cap(got) {
		must(t, <-got)
	}
}

// TestSlowClientsMakeRoom fills the memory with bodies that do not end, pages
// that nobody reads and streams that nobody reads. Who needs a larger part of
// it gets it long before these are given up otherwise.
func TestSlowClientsMakeRoom(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.BodyMemory = 24 << 20
		c.Timeouts.Body, c.Timeouts.Write = 12*time.Second, 12*time.Second
		c.Timeouts.Heartbeat = time.Hour
	})
	a, other := r.registered(), r.registered()
	from := strangerID()
	for range 5 {
		r.expect("ok", r.send(opaque(from, a.aceID(), epoch, wire.MaxPlaintextBytes), a.permit(from)))
		r.expect("ok", r.send(opaque(from, other.aceID(), epoch, 20_000), other.permit(from)))
	}
	authenticated := func(path, action string, payload []byte) string {
		text := "GET " + path + " HTTP/1.1\r\nHost: x\r\n"
		for name, values := range a.signed(action, payload) {
			text += name + ": " + values[0] + "\r\n"
		}
		return text + "\r\n"
	}
	for name, flood := range map[string]struct {
		clients int
		request func() string
	}{
		"bodies": {30, func() string {
			return "POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat(" ", 400_000)
		}},
		"pages":   {6, func() string { return authenticated("/v1/inbox", kel.ActionInbox, relayapi.InboxPayload("-", 100)) }},
		"streams": {16, func() string { return authenticated("/v1/listen", kel.ActionListen, relayapi.ListenPayload("-")) }},
	} {
		t.Run(name, func(t *testing.T) {
			for range flood.clients {
				w := r.tap(t)
				must(t, w.conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(4096))
				w.write(flood.request())
				defer w.conn.Close()
			}
			time.Sleep(1500 * time.Millisecond) // the memory is theirs, and so was their time
			large := opaque(from, other.aceID(), epoch, 40_000)
			r.send(large, other.permit(from)).expect(t, "ok")
			got := other.inbox()
			got.expect(t, "ok")
			if len(got.body) < 5*20_000 {
				t.Fatalf("a page of %d bytes", len(got.body))
			}
		})
	}
}

// TestSmallPacketsComeOneByOne takes all the memory there is for large parts
// with streams that nobody reads. Whoever has several small packets queued gets
// them all the same, on a shorter page or in a shorter part.
func TestSmallPacketsComeOneByOne(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.BodyMemory = 6_000_000                          // for two of the largest packets
		c.Timeouts.Body, c.Timeouts.Write = time.Hour, time.Hour // nobody is too slow
	})
	slow, other, from := r.registered(), r.registered(), strangerID()
	for range 5 {
		r.expect("ok", r.send(opaque(from, slow.aceID(), epoch, wire.MaxPlaintextBytes), slow.permit(from)))
	}
	var queued []string
	for range 3 {
		p := opaque(from, other.aceID(), epoch, 6_000)
		r.expect("ok", r.send(p, other.permit(from)))
		queued = append(queued, string(p))
	}
	for range 2 {
		w := r.tap(t)
		must(t, w.conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(4096))
		text := "GET /v1/listen HTTP/1.1\r\nHost: x\r\n"
		for name, values := range slow.signed(kel.ActionListen, relayapi.ListenPayload(relayapi.Dash)) {
			text += name + ": " + values[0] + "\r\n"
		}
		w.write(text + "\r\n")
	}
	for deadline := time.Now().Add(patience); slow.inbox().status == http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("streams that nobody reads take no memory")
		}
	}

	page := other.inbox()
	page.expect(t, "ok")
	entries, err := relayapi.ParseInboxPage(page.body, relayapi.Dash)
	must(t, err)
	if len(entries) == 0 || len(entries) > len(queued) {
		t.Fatalf("a page of %d entries", len(entries))
	}
	same(t, texts(entries), queued[:len(entries)]) // a stream may give some back for a moment
	l := other.listen(relayapi.Dash)
	l.want("connected", "")
	for _, p := range queued {
		l.want("catchup", p)
	}
}
