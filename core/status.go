package core

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// usableWarningSeconds is how long before its end a signing key is warned of.
const usableWarningSeconds = 30 * 86400

// StatusOptions say how to ask.
type StatusOptions struct {
	Offline bool // do not ask the relay
}

// Status is where an endpoint stands.
type Status struct {
	ACEID             string
	UsableUntil       int64 // notAfter of the delegation, 0: until replaced
	KELSeq            int64
	Relay             string
	Reachable         bool  // the relay answered
	Registered        bool  // as the relay answers now
	DescriptorExpires int64 // of the last published one, 0 never
	DescriptorStale   bool  // an event was appended to the log after it
	Handle            string
	Contact           string
	Unhandled         int
	OutboxPending     int
	Held              int // messages that wait for their owner
	Requests          int
	Quarantined       int  // messages set aside, and packets given up
	Withdrawn         bool // the owner has unregistered the identity
	UnconfirmedBlocks int  // decisions that the relay has not answered yet
	Warnings          []string
}

// Status reads the store and asks the relay once. A relay that does not answer
// is no error.
func (e *Endpoint) Status(ctx context.Context, o StatusOptions) (Status, error) {
	now, err := e.now()
	if err != nil {
		return Status{}, err
	}
	state := e.config.Identity.State()
	s := Status{ACEID: e.ACEID(), KELSeq: state.Seq(), Relay: e.config.Relay, Handle: e.handle(), Contact: e.config.Card.Contact}
	if d := state.Delegated(); d != nil {
		s.UsableUntil = d.NotAfter
	}
	err = e.store.View(ctx, func(tx *store.Tx) error { return s.count(tx, state, now) })
	if err != nil {
		return s, err
	}
	if !o.Offline {
		if err := e.askRelay(ctx, &s, now); err != nil {
			return s, err
		}
	}
	s.warn(now, state.Usable(now), o)
	return s, nil
}

func (s *Status) count(tx *store.Tx, state *kel.State, now int64) error {
	unhandled, err := tx.CountUnhandled()
	if err != nil {
		return err
	}
	s.Unhandled = int(unhandled)
	if s.OutboxPending, err = tx.CountPending(); err != nil {
		return err
	}
	held, err := tx.OutboxHeld(math.MaxInt64)
	if err != nil {
		return err
	}
	for _, e := range held {
		if now < e.HeldUntil {
			s.Held++
		}
	}
	requests, err := tx.RequestHeads(now - wire.ContactRequestTTLSeconds)
	if err != nil {
		return err
	}
	s.Requests = len(requests)
	if s.Quarantined, err = tx.CountQuarantined(); err != nil {
		return err
	}
	if s.Withdrawn, err = tx.Withdrawn(); err != nil {
		return err
	}
	unsettled, err := tx.UnsettledBlocks(s.Relay)
	if err != nil {
		return err
	}
	s.UnconfirmedBlocks = len(unsettled)
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil || !ok || own.Relay == "" {
		return err
	}
	agent, err := descriptor.DecodeStored(own.Raw)
	if err == nil {
		s.DescriptorExpires = agent.ExpiresAt
		s.DescriptorStale = now < agent.ExpiresAt && !agent.Usable(now, state)
	}
	return err
}

// askRelay fetches one inbox entry, which only a registered identity may.
func (e *Endpoint) askRelay(ctx context.Context, s *Status, now int64) error {
	_, err := e.client.Inbox(ctx, e.config.Relay, streamStart, 1, now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.Registered = err == nil
	s.Reachable = err == nil || answered(err)
	return nil
}

// answered reports whether a failure is one that the relay stated itself.
func answered(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Status != 0
}

func (s *Status) warn(now int64, usable bool, o StatusOptions) {
	add := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }
	switch {
	case !usable:
		add("the identity is not usable: no signing key is delegated, or its time is over")
	case s.UsableUntil != 0 && s.UsableUntil-now < usableWarningSeconds:
		add("the signing key ends in %d days", (s.UsableUntil-now)/86400)
	}
	switch {
	case s.Withdrawn:
		add("the identity is unregistered: nobody can reach it until it is published again")
	case s.DescriptorExpires == 0:
		add("nothing is published yet: peers cannot find this identity")
	case s.DescriptorExpires <= now:
		add("the published descriptor has expired: peers cannot reach this identity until it is published again")
	case s.DescriptorStale:
		// A relay drops the descriptor of a log that has gone on (07#registration),
		// so one that was not published in the same breath stands nowhere.
		add("the published descriptor is of an earlier key: peers cannot look this identity up until it is published again")
	}
	if s.UnconfirmedBlocks > 0 && s.Relay != "" {
		add("the relay has not confirmed %d of your decisions to block or unblock: until the next upkeep it goes by the ones before", s.UnconfirmedBlocks)
	}
	if !o.Offline && !s.Reachable {
		add("the relay does not answer")
	}
	if !o.Offline && s.Reachable && !s.Registered && !s.Withdrawn {
		add("the identity is not registered at its relay")
	}
}
