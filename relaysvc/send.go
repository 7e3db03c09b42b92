package relaysvc

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// serveSend is POST /v1/send (07#send).
func (s *Server) serveSend(w http.ResponseWriter, r *request) error {
	body, err := s.readBody(w, r, wire.MaxSendBodyBytes)
	if err != nil {
		return err
	}
	value, err := relayapi.ParseBody(body)
	if err != nil {
		return err
	}
	send, err := relayapi.ParseSend(value)
	if err != nil {
		return err
	}
	if err := s.processSend(r.Context(), send, s.clientNetwork(r.Request), r.now); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// processSend decides about a packet in the steps of 07#send. Nil means that
// it is queued durably, now or already before.
func (s *Server) processSend(ctx context.Context, send relayapi.Send, network string, now int64) error {
	// 07#send step 1
	p, err := packet.DecodeValue(send.Packet)
	if err != nil {
		return err
	}
	if err := p.CheckWindow(now); err != nil {
		return err
	}
	digest := sha256.Sum256(p.Raw())
	q := relaydb.Packet{To: p.To, From: p.From, Digest: digest[:], Raw: p.Raw(), Network: network, Now: now}
	return decide(func() error {
		// 07#send steps 2 and 3
		recipient, err := s.db.Recipient(ctx, q)
		if err != nil || recipient.Queued {
			return err
		}
		if send.HasPermit {
			return s.sendWithPermit(ctx, send.Permit, q, recipient)
		}
		return s.sendAsStranger(ctx, q, recipient)
	})
}

// sendWithPermit is 07#send step 4.
func (s *Server) sendWithPermit(ctx context.Context, permit wire.Value, q relaydb.Packet, recipient relaydb.Recipient) error {
	state, err := s.state(ctx, q.To, recipient.KELEnd)
	if err != nil {
		return err
	}
	if _, err := admission.VerifyPermit(permit, state, q.To, q.From, q.Now); err != nil {
		return fault.Wrap(fault.NotPermitted, err)
	}
	q.KELEnd = recipient.KELEnd
	q.Expires = q.Now + wire.OfflineWindowSeconds
	return s.enqueue(ctx, q)
}

// sendAsStranger is 07#send step 5. The store checks the allowance again, and
// then for good; here it comes before the rates, as in the chapter.
func (s *Server) sendAsStranger(ctx context.Context, q relaydb.Packet, recipient relaydb.Recipient) error {
	switch {
	case !recipient.Open:
		return relaydb.Unreachable
	case recipient.Strangers >= wire.StrangerAllowance || recipient.OfNetwork >= wire.StrangerNetworkAllowance:
		return relaydb.Full
	}
	if err := s.limiter.allow("strangers from "+q.Network, s.config.Limits.StrangersFrom, q.Now); err != nil {
		return err
	}
	if err := s.limiter.allow("strangers to "+q.To, s.config.Limits.StrangersTo, q.Now); err != nil {
		return err
	}
	q.Expires = q.Now + wire.ContactRequestTTLSeconds
	return s.enqueue(ctx, q)
}

// enqueue queues a packet and then tells the recipient's streams.
func (s *Server) enqueue(ctx context.Context, q relaydb.Packet) error {
	queued, err := s.db.Enqueue(ctx, q, relaydb.Room{
		Entries:    s.config.Limits.QueueEntries,
		Bytes:      s.config.Limits.QueueBytes,
		Strangers:  wire.StrangerAllowance,
		PerNetwork: wire.StrangerNetworkAllowance,
	})
	if queued {
		s.hub.wake(q.To)
	}
	return err
}
