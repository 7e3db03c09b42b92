package relaysvc

import (
	"net/http"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
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
	page, cursor := relayapi.NewInboxPage(limit), ""
	err = s.authenticated(r, h, kel.ActionInbox, relayapi.InboxPayload(since, limit), func(c caller) error {
		// Reading comes first: a page that is read in vain costs nobody
		// anything, a nonce that is spent in vain costs the caller a retry.
		entries, err := s.db.Entries(r.Context(), h.ID, c.Incarnation, since, limit, wire.MaxPageBytes, r.now)
		if err != nil {
			return err
		}
		if err := s.db.Spend(r.Context(), c.Caller); err != nil {
			return err
		}
		for _, e := range entries {
			if !page.AddPacket(e.StreamID, e.Packet) {
				break
			}
			cursor = e.StreamID
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.accept(w, page.Finish(cursor))
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
	return s.accept(w, relayapi.OK())
}
