package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
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
