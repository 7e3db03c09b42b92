package relaysvc

import (
	"context"
	"net/http"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// serveInbox is GET /v1/inbox (07#inbox).
func (s *Server) serveInbox(w http.ResponseWriter, r *request) error {
	query, err := r.query()
	if err != nil {
		return err
	}
	since, limit, err := relayapi.ParseInbox(query)
	if err != nil {
		return err
	}
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	page := &inboxPage{server: s, limit: limit}
	defer func() { s.pages.free(&page.memory) }()
	err = s.authenticated(r, h, kel.ActionInbox, relayapi.InboxPayload(since, limit), func(c caller) error {
		// Reading comes first: a page that is read in vain costs nobody
		// anything, a nonce that is spent in vain costs the caller a retry.
		err := page.fill(r.Context(), relaydb.Span{
			ACEID: h.ID, Incarnation: c.Incarnation, After: since, Entries: limit, Bytes: wire.MaxPageBytes, Now: r.now,
		})
		if err != nil {
			return err
		}
		return s.db.Spend(r.Context(), c.Caller)
	})
	if err != nil {
		return err
	}
	return s.acceptLent(w, page.body, s.pages, page.memory.held())
}

// inboxPage is a page that is being made.
type inboxPage struct {
	server *Server
	limit  int64
	memory buffer
	page   *relayapi.Page
	cursor string
	short  int // bytes that the page needs and did not get
	first  int // of these for its first entry
	body   []byte
}

// fill makes the page of a span. Code: rate_limited (too many pages at the same
// time).
func (p *inboxPage) fill(ctx context.Context, span relaydb.Span) error {
	for {
		p.page, p.cursor, p.short = relayapi.NewInboxPage(p.limit), "", 0
		var err error
		p.server.crew.run(func() { _, err = p.server.db.Entries(ctx, span, p.add) })
		if err != nil {
			return err
		}
		if p.short == 0 {
			p.body = p.page.Finish(p.cursor)
			return nil
		}
		// Not there, where a transaction was open.
		size, ok := p.server.pages.tryFirst(p.short, p.first)
		if !ok && !p.server.pages.take(ctx, int64(sizes[size]), bodyPatience) {
			return errNoMemory
		}
		p.server.pages.grow(&p.memory, size)
	}
}

func (p *inboxPage) add(e relaydb.Entry) bool {
	if !p.room(e) || !p.page.AddPacket(e.StreamID, e.Packet) {
		return false
	}
	p.cursor = e.StreamID
	return true
}

// room reports whether the page has the memory for e. A page may be a short one
// where others hold too much of that.
func (p *inboxPage) room(e relaydb.Entry) bool {
	alone := len(e.Packet) + relayapi.PageOverhead(1)
	if p.page.Entries() > 0 {
		return p.page.Len()+alone <= cap(p.memory.data)
	}
	if cap(p.memory.data) < alone {
		p.server.pages.free(&p.memory)
		p.short, p.first = int(e.Bytes)+relayapi.PageOverhead(e.Entries), alone
		return false
	}
	p.page.Within(p.memory.data)
	return true
}

// serveAck is POST /v1/inbox/ack (07#inbox).
func (s *Server) serveAck(w http.ResponseWriter, r *request) error {
	query, err := r.query()
	if err != nil {
		return err
	}
	through, err := relayapi.ParseAck(query)
	if err != nil {
		return err
	}
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	err = s.authenticated(r, h, kel.ActionInboxAck, relayapi.AckPayload(through), func(c caller) error {
		return s.db.Ack(r.Context(), c.Caller, through)
	})
	if err != nil {
		return err
	}
	s.metrics.acks.Inc()
	return s.accept(w, relayapi.OK())
}
