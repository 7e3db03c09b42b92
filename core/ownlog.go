package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// OwnRecord is what a relay serves of an identity to its owner, who may have
// lost everything else, or another installation of it.
type OwnRecord struct {
	Log *kel.State // nil when the relay serves nothing
	// Descriptor and Card are nil where none is served that verifies.
	Descriptor *descriptor.PublishedAgent
	Card       *descriptor.CardBundle
}

// LookupOwn asks a relay, without saying who asks, what it serves of an
// identity. Of two logs it returns the one that supersedes the other. The log
// verifies at now, in Unix seconds; whether it is the owner's is for the owner
// to say. Codes: invalid_argument, invalid_kel, invalid_signature, kel_conflict
// for the log of another identity, and those of 07#client-rules.
func LookupOwn(ctx context.Context, relay, aceID string, urls wire.URLPolicy, now int64) (OwnRecord, error) {
	client := relayclient.New(relayclient.Config{URLs: urls, Configured: []string{relay}})
	defer client.Close()
	o := descriptor.Options{URLs: urls}
	var own OwnRecord
	agent, err := client.Descriptor(ctx, relay, aceID)
	if err == nil {
		own.Descriptor, _ = descriptor.VerifyValue(agent, now, o)
		err = own.take(agent, aceID, now)
	}
	if err != nil && !errors.Is(err, fault.UnknownPeer) {
		return OwnRecord{}, err
	}
	card, err := client.Card(ctx, relay, aceID)
	if err == nil {
		own.Card, _ = descriptor.VerifyCardValue(card, now, o)
		err = own.take(card, aceID, now)
	}
	if err != nil && !errors.Is(err, fault.UnknownPeer) {
		return OwnRecord{}, err
	}
	return own, nil
}

// take keeps the log of a served document unless the one held is as good: it
// stays where the two contradict each other.
func (r *OwnRecord) take(document wire.Value, aceID string, now int64) error {
	log, _ := document.Get("kel")
	state, err := kel.Verify(log, now)
	if err != nil {
		return err
	}
	if state.ACEID() != aceID {
		return fault.New(fault.KELConflict, "the relay serves the log of %s", state.ACEID())
	}
	if _, after, err := kel.Reconcile(r.Log, state); err == nil {
		r.Log = after
	}
	return nil
}

// KeyAtRelay asks the home relay for one inbox entry, which it gives to the newest
// signing key that it knows of the identity. It holds the log also while it serves
// none, between a registration and the next descriptor. Codes: kel_conflict when
// the relay knows another key than ours for this seq, or a later one,
// identity_unavailable when its clock and ours differ by so much that it refuses
// what is signed now, and those of 07#client-rules when it does not answer.
func (e *Endpoint) KeyAtRelay(ctx context.Context) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	if !e.config.Identity.State().Usable(now) {
		return nil // it signs no request either
	}
	_, err = e.client.Inbox(ctx, e.config.Relay, streamStart, 1, now)
	switch remote := remoteError(err); {
	case remote == string(relayapi.StaleSeq) || remote == string(fault.InvalidSignature):
		return fault.New(fault.KELConflict, "the relay %s knows another signing key of %s", e.config.Relay, e.ACEID())
	case remote == string(fault.StaleTimestamp):
		return fault.New(fault.IdentityUnavailable, "the relay %s refuses what is signed by the clock of this machine", e.config.Relay)
	case err == nil || answered(err):
		return nil
	}
	return err
}

// LogAtRelay says how the log of an identity compares with the one that a relay
// serves of it.
type LogAtRelay string

// The comparisons that leave an identity able to sign.
const (
	LogSame    LogAtRelay = "same"    // both end with the same event
	LogBehind  LogAtRelay = "behind"  // the relay's is extended or superseded by it
	LogUnknown LogAtRelay = "unknown" // the relay serves nothing of the identity
)

// CompareLog asks a relay as [LookupOwn] does and compares what it serves with
// the given log. An installation that was restored asks before it signs anything:
// another one may have signed meanwhile (01#rotation-and-recovery). Codes:
// kel_conflict when the relay knows of events that the log lacks, and those of
// LookupOwn.
func CompareLog(ctx context.Context, relay string, log *kel.State, urls wire.URLPolicy, now int64) (LogAtRelay, error) {
	own, err := LookupOwn(ctx, relay, log.ACEID(), urls, now)
	if err != nil || own.Log == nil {
		return LogUnknown, err
	}
	// What would somebody do who has pinned the log of the relay?
	outcome, _, err := kel.Reconcile(own.Log, log)
	switch {
	case err != nil:
		return "", err
	case own.Log.LastHash() == log.LastHash():
		return LogSame, nil
	case outcome == kel.Unchanged:
		return "", fault.New(fault.KELConflict, "the relay knows events of %s up to seq %d, this log only up to seq %d", log.ACEID(), own.Log.Seq(), log.Seq())
	}
	return LogBehind, nil
}

// CompareLog is [CompareLog] for the endpoint's own log at its home relay.
func (e *Endpoint) CompareLog(ctx context.Context) (LogAtRelay, error) {
	now, err := e.now()
	if err != nil {
		return "", err
	}
	return CompareLog(ctx, e.config.Relay, e.config.Identity.State(), e.urls, now)
}
