package core_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// A new signing key voids the permits of the current one, and only where both
// sides are closed can a peer be lost (06#security-considerations).
func TestNewKeyEffects(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, open()), newAgent(t, r, closed()), newAgent(t, r, open())
	befriend(bob, alice)
	befriend(carol, alice)
	effects := func(a *agent) core.NewKeyEffects {
		t.Helper()
		f, err := a.NewKeyEffects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := effects(alice); f.Permits != 2 || f.Refreshes != 2 || len(f.Closed) != 0 {
		t.Errorf("open: %+v", f)
	}
	if f := effects(bob); f.Permits != 1 || len(f.Closed) != 0 {
		t.Errorf("closed, with an open peer: %+v", f)
	}
	bob.publish(false)
	if _, err := alice.Lookup(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	alice.reopen(func(c *core.Config) { c.Card.Contact = "closed" })
	f := effects(alice)
	known := map[string]bool{}
	for _, peer := range f.Closed {
		known[peer.ACEID] = peer.Known
	}
	if len(known) != 2 || !known[bob.ACEID()] || known[carol.ACEID()] {
		t.Errorf("closed, with a closed peer and one without a known card: %+v", f)
	}
	r.ahead.Add(1)
	alice.delegate(r)
	if f := effects(alice); f.Permits != 0 || f.Refreshes != 2 {
		t.Errorf("after a new key: %+v", f)
	}
}

// Of what a relay serves the newest log counts, also while the descriptor is
// that of an older one.
func TestLookupOwn(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	lookup := func() core.OwnRecord {
		t.Helper()
		own, err := core.LookupOwn(t.Context(), r.url, a.ACEID(), wire.Development, r.clock())
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	if own := lookup(); own.Log != nil || own.Descriptor != nil || own.Card != nil {
		t.Errorf("nothing is published: %+v", own)
	}
	a.publish(false)
	if own := lookup(); own.Log.LastHash() != a.config.Identity.State().LastHash() || own.Descriptor == nil || own.Card.Contact != "open" {
		t.Errorf("published: %+v", own)
	}
	r.ahead.Add(1)
	a.delegate(r)
	client := relayclient.New(relayclient.Config{Identity: a.config.Identity, URLs: wire.Development, Configured: []string{r.url}})
	defer client.Close()
	if _, err := client.Register(t.Context(), r.url, r.clock()); err != nil {
		t.Fatal(err)
	}
	card, err := descriptor.BuildCard(a.config.Identity, descriptor.CardRecord{Contact: "closed", Home: r.url}, r.clock()+1, r.clock(), descriptor.Options{URLs: wire.Development})
	if err == nil {
		err = client.PutCard(t.Context(), r.url, card.Raw())
	}
	if err != nil {
		t.Fatal(err)
	}
	if own := lookup(); own.Log.Seq() != 2 || own.Card.Contact != "closed" {
		t.Errorf("a card under a newer log: seq %d, %+v", own.Log.Seq(), own.Card)
	}
}

// PublishOptions.Prekey takes a new prekey, where others may have the seed of
// the last one.
func TestPublishANewPrekey(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	prekey := func() string {
		t.Helper()
		own, err := core.LookupOwn(t.Context(), r.url, a.ACEID(), wire.Development, r.clock())
		if err != nil {
			t.Fatal(err)
		}
		return string(own.Descriptor.Prekey)
	}
	a.publish(false)
	first := prekey()
	for _, o := range []core.PublishOptions{{Force: true}, {Prekey: true}} {
		if _, err := a.Publish(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if changed := prekey() != first; changed != o.Prekey {
			t.Errorf("%+v: changed %v", o, changed)
		}
	}
}
