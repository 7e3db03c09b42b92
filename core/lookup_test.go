package core_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// byHand publishes documents of an agent that its endpoint would not make.
type byHand struct {
	*agent
	client *relayclient.Client
}

func newByHand(t *testing.T, a *agent) byHand {
	t.Helper()
	client := relayclient.New(relayclient.Config{Identity: a.config.Identity, URLs: wire.Development})
	t.Cleanup(client.Close)
	return byHand{a, client}
}

var development = descriptor.Options{URLs: wire.Development}

// descriptor publishes a descriptor that names the given relays at each of them.
func (a byHand) descriptor(now int64, relays ...*relay) {
	a.t.Helper()
	f := descriptor.Fields{ExpiresAt: now + 3600, Prekey: suite.NewDecapsulationKey(suite.NewSeed()).PublicKey()}
	text := profile.OfficialByID(profile.TextID)
	f.Profiles = []descriptor.Profile{{ID: text.ID, Digest: text.Digest}}
	for _, r := range relays {
		f.Relays = append(f.Relays, r.url)
	}
	agent, err := descriptor.Build(a.config.Identity, f, now, -1, development)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, r := range relays {
		_, err := a.client.Register(a.t.Context(), r.url, now)
		if err == nil {
			err = a.client.PutDescriptor(a.t.Context(), r.url, agent.Raw())
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// card publishes a card record at its home.
func (a byHand) card(now int64, home *relay) {
	a.t.Helper()
	card, err := descriptor.BuildCard(a.config.Identity, descriptor.CardRecord{Home: home.url, Contact: "open"}, now, -1, development)
	if err == nil {
		err = a.client.PutCard(a.t.Context(), home.url, card.Raw())
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// The relays of a descriptor are asked for the card record in the order in which
// it lists them, until one serves it (04#card-record).
func TestCardIsAskedForInListedOrder(t *testing.T) {
	first, second := newRelay(t), newRelay(t)
	alice, bob := newByHand(t, newAgent(t, first, open())), newAgent(t, first, closed())
	now := first.clock()
	alice.descriptor(now, first, second)
	alice.card(now, second)
	peer, err := bob.Lookup(t.Context(), alice.ACEID())
	if err != nil || peer.Card == nil || peer.Card.Home != second.url {
		t.Fatalf("the record is at the second relay: %+v, %v", peer, err)
	}
	alice.card(now+1, first)
	if peer, err = bob.Lookup(t.Context(), alice.ACEID()); err != nil || peer.Card.Home != first.url {
		t.Errorf("both serve one, the first listed decides: %+v, %v", peer, err)
	}
	// Its record is older than the one seen by now: that is told, and no relay
	// behind it is asked in its place where it serves the newer one itself.
	alice.card(now+2, second)
	first.ahead.Add(10)
	second.ahead.Add(10)
	alice.descriptor(now+10, second, first)
	if peer, err = bob.Lookup(t.Context(), alice.ACEID()); err != nil || peer.Card.Home != second.url {
		t.Errorf("the other one is listed first now: %+v, %v", peer, err)
	}
}

// A card record older than one seen is told, and looked at no further
// (04#card-record).
func TestOlderCardIsTold(t *testing.T) {
	r := newRelay(t)
	alice, bob := newByHand(t, newAgent(t, r, open())), newAgent(t, r, closed())
	now := r.clock()
	alice.descriptor(now, r)
	alice.card(now, r)
	older, err := alice.client.Card(t.Context(), r.url, alice.ACEID())
	if err != nil {
		t.Fatal(err)
	}
	alice.card(now+1, r)
	if _, err := bob.Lookup(t.Context(), alice.ACEID()); err != nil {
		t.Fatal(err)
	}
	bob.reopen(func(c *core.Config) { c.Transport = &serving{"/v1/card/" + alice.ACEID(), older.Canonical()} })
	if peer, err := bob.Lookup(t.Context(), alice.ACEID()); !errors.Is(err, fault.StaleDescriptor) {
		t.Errorf("%+v, %v", peer, err)
	}
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, ""); !errors.Is(err, fault.StaleDescriptor) {
		t.Errorf("connect: %v", err)
	}
}

// counting counts the requests to a path.
type counting struct {
	path     string
	requests int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == c.path {
		c.requests++
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Nothing is said of a card record whose identity has no live descriptor, and no
// request is sent to whom has no card record (04#card-record, 05#flow step 1).
func TestCardAndDescriptorBelongTogether(t *testing.T) {
	r := newRelay(t)
	alice, bob := newByHand(t, newAgent(t, r, open())), newAgent(t, r, closed())
	alice.descriptor(r.clock(), r)
	if peer, err := bob.Lookup(t.Context(), alice.ACEID()); err != nil || peer.Card != nil {
		t.Fatalf("without a card: %+v, %v", peer, err)
	}
	sent := &counting{path: "/v1/send"}
	bob.reopen(func(c *core.Config) { c.Transport = sent })
	shut := newAgent(t, r, closed())
	shut.publish(false)
	for name, id := range map[string]string{"without a card": alice.ACEID(), "closed": shut.ACEID()} {
		if _, err := bob.Connect(t.Context(), id, profile.TextID, ""); !errors.Is(err, fault.NotPermitted) || sent.requests != 0 {
			t.Errorf("connect to somebody %s: %v, %d packets sent", name, err, sent.requests)
		}
	}
	alice.card(r.clock(), r)
	r.ahead.Add(3600)
	if _, err := alice.client.Card(t.Context(), r.url, alice.ACEID()); err != nil {
		t.Fatalf("the card is gone as well: %v", err)
	}
	if peer, err := bob.Lookup(t.Context(), alice.ACEID()); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("without a descriptor: %+v, %v", peer, err)
	}
}

// A handle is set once: no record without it is signed for the relay that has
// it (04#card-record).
func TestHandleIsForGood(t *testing.T) {
	first, second := newRelay(t), newRelay(t)
	a := newAgent(t, first, descriptor.CardRecord{Contact: "open", Handle: "alice"})
	a.publish(false)
	own := func() (d store.Document) {
		a.change(func(tx *store.Tx) (err error) {
			d, _, err = tx.Own(store.OwnCard)
			return err
		})
		return d
	}
	claimed := own()
	for _, handle := range []string{"", "other"} {
		a.reopen(func(c *core.Config) { c.Card.Handle = handle })
		if _, err := a.Publish(t.Context(), core.PublishOptions{}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("handle %q: %v", handle, err)
		}
		if string(own().Raw) != string(claimed.Raw) {
			t.Errorf("a record with the handle %q was signed", handle)
		}
	}
	a.reopen(func(c *core.Config) { c.Card = descriptor.CardRecord{Contact: "closed", Handle: "alice"} })
	if p := a.publish(false); !p.Card {
		t.Errorf("another record with the same handle: %+v", p)
	}
	a.reopen(func(c *core.Config) { c.Relay, c.Card.Handle = second.url, "" })
	if p := a.publish(false); !p.Card {
		t.Errorf("none at another relay: %+v", p)
	}
}

// The published prekey is replaced, and not more often than its superseded seeds
// are kept (04#prekey).
func TestPrekeysAreReplacedInTime(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	seen := map[string]bool{}
	const step = 4 * 3600
	for range wire.OfflineWindowSeconds / step {
		a.publish(true)
		peer, err := a.Lookup(t.Context(), a.ACEID())
		if err != nil {
			t.Fatal(err)
		}
		seen[peer.Descriptor.PrekeyID] = true
		r.ahead.Add(step)
	}
	if len(seen) < 2 || len(seen) > wire.MaxRetainedPrekeys {
		t.Errorf("%d prekeys in OFFLINE_WINDOW_SECONDS", len(seen))
	}
}
