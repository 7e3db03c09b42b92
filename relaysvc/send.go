package relaysvc

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// permitCacheEntries bounds the permits remembered, of less than 1 KiB each.
const permitCacheEntries = 1 << 15

// serveSend is POST /v1/send (07#send).
func (s *Server) serveSend(w http.ResponseWriter, r *request) error {
	body, err := s.borrowBody(w, r, wire.MaxSendBodyBytes)
	if err != nil {
		return err
	}
	send, err := relayapi.DecodeSend(body)
	if err != nil {
		return err
	}
	if err := s.processSend(r, send); err != nil {
		return err
	}
	if err := s.accept(w, relayapi.OK()); err != nil {
		return err
	}
	s.wakeAfter(w, send.Packet.To)
	return nil
}

// processSend decides about a packet in the steps of 07#send. Nil means that
// it is queued durably, now or already before.
func (s *Server) processSend(r *request, send relayapi.SendRequest) error {
	// 07#send step 1
	p := send.Packet
	if err := p.CheckWindow(r.now); err != nil {
		return err
	}
	digest := sha256.Sum256(p.Raw)
	q := relaydb.Packet{To: p.To, From: p.From, Digest: digest[:], Raw: p.Raw, Now: r.now}
	if send.HasPermit {
		if err := s.sendWithKnownKEL(r.Context(), send.Permit, q); !errors.Is(err, relaydb.Changed) {
			return err
		}
	} else {
		q.Network = s.clientNetwork(r.Request)
	}
	return decide(func() error {
		// 07#send steps 2 and 3
		recipient, err := s.db.Recipient(r.Context(), q)
		if err != nil || recipient.Queued {
			s.countSend(false, err)
			return err
		}
		if send.HasPermit {
			return s.sendWithPermit(r.Context(), send.Permit, q, recipient)
		}
		return s.sendAsStranger(r.Context(), q, recipient)
	})
}

// sendWithKnownKEL is 07#send steps 2 to 4 for a permit that is good under the
// KEL of the recipient that was used last. The store then decides everything
// else in one transaction, in the order of the chapter. It answers with
// relaydb.Changed, having changed nothing, where the steps have to be taken one
// by one: a permit that is bad must neither hide a duplicate nor an unreachable
// recipient, and may be good under a KEL that is newer than the one in memory.
func (s *Server) sendWithKnownKEL(ctx context.Context, permit []byte, q relaydb.Packet) error {
	state := s.states.of(q.To)
	if state == nil || s.permits.Verify(permit, state, q.To, q.From, q.Now) != nil {
		return relaydb.Changed
	}
	return s.enqueueUnder(ctx, state.LastHash(), q)
}

// sendWithPermit is 07#send step 4.
func (s *Server) sendWithPermit(ctx context.Context, permit []byte, q relaydb.Packet, recipient relaydb.Recipient) error {
	state, err := s.state(ctx, q.To, recipient.KELEnd)
	if err != nil {
		return err
	}
	if err := s.permits.Verify(permit, state, q.To, q.From, q.Now); err != nil {
		return fault.Wrap(fault.NotPermitted, err)
	}
	return s.enqueueUnder(ctx, recipient.KELEnd, q)
}

// enqueueUnder queues a packet whose permit is good under the recipient's KEL
// that ends in kelEnd.
func (s *Server) enqueueUnder(ctx context.Context, kelEnd string, q relaydb.Packet) error {
	q.KELEnd = kelEnd
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
	if err := s.limiter.allow("strangers from "+q.Network, s.limits().StrangersFrom, q.Now); err != nil {
		return err
	}
	if err := s.limiter.allow("strangers to "+q.To, s.limits().StrangersTo, q.Now); err != nil {
		return err
	}
	q.Expires = q.Now + wire.ContactRequestTTLSeconds
	return s.enqueue(ctx, q)
}

// enqueue queues a packet and then tells the recipient's streams.
func (s *Server) enqueue(ctx context.Context, q relaydb.Packet) error {
	limits := s.limits()
	start := time.Now()
	queued, err := s.db.Enqueue(ctx, q, relaydb.Room{
		Entries:       limits.QueueEntries,
		Bytes:         limits.QueueBytes,
		SenderEntries: limits.SenderEntries,
		SenderBytes:   limits.SenderBytes,
		Strangers:     wire.StrangerAllowance,
		PerNetwork:    wire.StrangerNetworkAllowance,
		NetworkQueued: limits.NetworkQueued,
	})
	if queued {
		s.metrics.commit.Since(start)
		s.hub.wake(q.To)
	}
	s.countSend(queued, err)
	return err
}

// countSend counts a send that was accepted. Refusals are counted where they
// are answered.
func (s *Server) countSend(queued bool, err error) {
	switch {
	case queued:
		s.metrics.sends[sendQueued].Inc()
	case err == nil:
		s.metrics.sends[sendDuplicate].Inc()
	}
}
