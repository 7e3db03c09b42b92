package core

import (
	"context"
	"slices"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// FindOptions say what to find in the directory of the home relay.
type FindOptions struct {
	Tag     string // exact card tag, "" for any
	Profile string // exact profile ID, "" for any: a hint until the descriptor is looked up
	Cursor  string // of an earlier [FoundPage], "" for the start
	Limit   int    // most entries, refused ones included; 0: one page
}

// FoundPage is a page of the directory.
type FoundPage struct {
	Cards   []FoundCard
	Refused []error // what is wrong with entries that are left out
	Cursor  string  // where the next page begins, "" behind the last one
}

// FoundCard is a verified card record of a listed identity.
type FoundCard struct {
	*descriptor.CardBundle
	Name string // petname, "" for none
}

// Find reads the directory of the home relay page by page, and verifies each card
// record as a lookup does (07#descriptors-and-cards, 04#verification). One that
// does not verify, or that the directory should not have, is left out. An error
// of on ends it. Codes: invalid_argument, relay_protocol_error for a directory
// that is not in the order of ACE IDs, those of 07#client-rules.
func (e *Endpoint) Find(ctx context.Context, o FindOptions, on func(FoundPage) error) error {
	if e.config.Relay == "" {
		return fault.New(fault.InvalidArgument, "there is no relay whose directory could be read")
	}
	f := &finding{Endpoint: e, options: o}
	for left := o.Limit; ; {
		seen, err := f.page(ctx, left, on)
		if err != nil {
			return err
		}
		if left -= seen; left <= 0 || f.options.Cursor == "" {
			return nil
		}
	}
}

// finding is one Find.
type finding struct {
	*Endpoint
	options FindOptions // the cursor moves
	last    string      // ACE ID of the last verified card
}

// page reads one page of at most so many entries, 0 being as many as the relay
// gives, and returns how many there were.
func (f *finding) page(ctx context.Context, most int, on func(FoundPage) error) (seen int, err error) {
	now, err := f.now()
	if err != nil {
		return 0, err
	}
	limit := int64(min(most, wire.MaxInboxPage))
	served, err := f.client.Directory(ctx, f.config.Relay, relayapi.Directory{
		Tag: f.options.Tag, Profile: f.options.Profile, Cursor: f.options.Cursor, Limit: limit,
	})
	if err != nil {
		return 0, err
	}
	switch n := len(served.Cards); {
	case n == 0 && served.Cursor != "":
		return 0, fault.New(fault.RelayProtocolError, "the directory has an empty page before its end")
	case limit > 0 && int64(n) > limit:
		return 0, fault.New(fault.RelayProtocolError, "the directory has %d entries on a page of at most %d", n, limit)
	}
	found := FoundPage{Cursor: served.Cursor}
	for _, entry := range served.Cards {
		if err := f.take(ctx, entry, &found, now); err != nil {
			return 0, err
		}
	}
	f.options.Cursor = served.Cursor
	return len(served.Cards), on(found)
}

// take verifies one entry. Its error ends the reading, for it is none of the
// entry alone.
func (f *finding) take(ctx context.Context, entry wire.Value, found *FoundPage, now int64) error {
	bundle, err := f.node.AdoptListed(ctx, entry, now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = f.belongs(bundle)
	}
	switch {
	case fault.CodeOf(err).Category() == fault.Local:
		return err
	case err != nil:
		found.Refused = append(found.Refused, err)
		return nil
	}
	// The order is what keeps a relay from serving the same entries for ever.
	if bundle.ACEID <= f.last {
		return fault.New(fault.RelayProtocolError, "the directory has %s behind %s", bundle.ACEID, f.last)
	}
	f.last = bundle.ACEID
	card := FoundCard{CardBundle: bundle}
	err = f.store.View(ctx, func(tx *store.Tx) error {
		card.Name, err = tx.Name(bundle.ACEID)
		return err
	})
	found.Cards = append(found.Cards, card)
	return err
}

// belongs reports why a card is none of this directory and its filter
// (07#descriptors-and-cards).
func (f *finding) belongs(b *descriptor.CardBundle) error {
	switch {
	case !b.Listed:
		return fault.New(fault.RelayProtocolError, "%s is not listed", b.ACEID)
	case b.Home != f.config.Relay:
		return fault.New(fault.RelayProtocolError, "the home of %s is another relay", b.ACEID)
	case f.options.Tag != "" && !slices.Contains(b.Card.Tags, f.options.Tag):
		return fault.New(fault.RelayProtocolError, "%s does not have the tag", b.ACEID)
	}
	return nil
}
