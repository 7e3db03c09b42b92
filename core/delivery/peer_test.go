package delivery_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

func (e *endpoint) permit(of *endpoint, d store.PermitDirection) (p store.Permit) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		p, _, err = tx.Permit(of.id.ACEID(), d)
		return err
	})
	return p
}

// A receipt renews a permit that has less than half of its life left.
func TestReceiptRenewsThePermit(t *testing.T) {
	w, alice, bob := friends(t)
	first := bob.permit(alice, store.PermitHeld)
	bob.send(alice, "early")
	alice.pull()
	bob.pull()
	if got := bob.permit(alice, store.PermitHeld); got.IssuedAt != first.IssuedAt {
		t.Error("a permit was renewed too early")
	}
	w.now = first.ExpiresAt - wire.PermitRenewalSeconds + 1
	alice.publish("open")
	bob.publish("")
	bob.send(alice, "late")
	alice.pull()
	bob.pull()
	renewed := bob.permit(alice, store.PermitHeld)
	if renewed.IssuedAt != w.now || alice.permit(bob, store.PermitIssued).IssuedAt != w.now {
		t.Errorf("renewed at %d, recorded at %d, now %d", renewed.IssuedAt, alice.permit(bob, store.PermitIssued).IssuedAt, w.now)
	}
}

// The permit of a retry's admission is held by a receiver that has none.
func TestAdmissionPermitIsHeld(t *testing.T) {
	w, alice, bob := friends(t)
	entry := bob.enqueue(alice, "x")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	if _, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now); !errors.Is(err, fault.RelayUnavailable) {
		t.Fatal(err)
	}
	w.refuse = nil
	w.now += 60
	alice.update(func(tx *store.Tx) error {
		return tx.SetPermit(bob.id.ACEID(), store.PermitHeld, store.Permit{Raw: alice.worthless(bob).Raw})
	})
	bob.attempt(entry.MessageID)
	alice.pullOne(delivery.Delivered, "")
	if got := alice.permit(bob, store.PermitHeld); got.ExpiresAt <= w.now {
		t.Errorf("held %+v", got)
	}
}

// It is held also when the retry is a duplicate.
func TestAdmissionPermitOfADuplicate(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "x")
	alice.pullOne(delivery.Delivered, "")
	w.now += 60
	alice.update(func(tx *store.Tx) error {
		return tx.SetPermit(bob.id.ACEID(), store.PermitHeld, store.Permit{Raw: alice.worthless(bob).Raw})
	})
	bob.attempt(sent.MessageID)
	alice.pullOne(delivery.Duplicate, "")
	if got := alice.permit(bob, store.PermitHeld); got.ExpiresAt <= w.now {
		t.Errorf("held %+v", got)
	}
}

// The permit that an admission carries counts as issued once it was sent.
func TestAdmissionPermitCountsOnceSent(t *testing.T) {
	w, alice, bob := friends(t)
	first := bob.permit(alice, store.PermitIssued)
	w.now = first.ExpiresAt - wire.PermitRenewalSeconds + 1
	alice.publish("open")
	bob.publish("")
	entry := bob.enqueue(alice, "x")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	for range 2 {
		if _, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now); !errors.Is(err, fault.RelayUnavailable) {
			t.Fatal(err)
		}
		w.now += 60
	}
	if got := bob.permit(alice, store.PermitIssued); got.IssuedAt != first.IssuedAt {
		t.Error("a permit that no relay took counts as issued")
	}
	w.refuse = nil
	bob.attempt(entry.MessageID)
	if got := bob.permit(alice, store.PermitIssued); got.IssuedAt != w.now {
		t.Errorf("issued at %d, now %d", got.IssuedAt, w.now)
	}
}

// worthless returns the permit held from a peer with other claims than signed.
func (e *endpoint) worthless(of *endpoint) store.Permit {
	old := e.permit(of, store.PermitHeld)
	v, err := wire.Parse(old.Raw, wire.MaxJSONDepth)
	if err != nil {
		e.t.Fatal(err)
	}
	old.Raw = v.With("expiresAt", wire.NewInt(e.world.now+1)).Canonical()
	return old
}

// A retry waits at least as long as the relay asks.
func TestRetryAfterOfARelay(t *testing.T) {
	w, alice, bob := friends(t)
	entry := bob.enqueue(alice, "x")
	full := fault.New(fault.RelayUnavailable, "full")
	full.RetryAfter = 500
	w.refuse = full
	after, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now)
	if !errors.Is(err, fault.RelayUnavailable) || after.NextAttemptAt != w.now+500 {
		t.Fatalf("%+v, %v", after, err)
	}
}

// An older descriptor never replaces the cached one, expired or not.
func TestNoRollbackOfDescriptors(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	older := w.agents[alice.id.ACEID()]
	w.now++
	alice.publish("open")
	newer, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.agents[alice.id.ACEID()] = older
	bob.open() // what is kept is durable
	again, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now)
	if err != nil || again.Agent.PrekeyID != newer.Agent.PrekeyID {
		t.Fatalf("%v, %v", again.Agent, err)
	}
	// An older one that lives longer does not take the place of the cached one
	// either, not even when that has expired.
	longer, err := descriptor.Build(alice.id, descriptor.Fields{
		ExpiresAt: newer.Agent.ExpiresAt + 60, Relays: []string{relay}, Prekey: newer.Agent.Prekey,
	}, start, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.now = newer.Agent.ExpiresAt
	w.agents[alice.id.ACEID()] = longer.Value()
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); !errors.Is(err, fault.StalePeerBinding) {
		t.Fatal(err)
	}
	w.agents[alice.id.ACEID()] = older
	// The older one, issued a second earlier, has expired as well: a verifier
	// refuses it, and the cached one is no fallback.
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); !errors.Is(err, fault.InvalidAuthorization) {
		t.Fatal(err)
	}
}

func (e *endpoint) card(r descriptor.CardRecord, issued int64) wire.Value {
	e.t.Helper()
	r.Home, r.Contact = relay, "open"
	b, err := descriptor.BuildCard(e.id, r, issued, -1, descriptor.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	return b.Value()
}

func TestCardHorizon(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	id := alice.id.ACEID()
	adopt := func(card wire.Value) error {
		_, err := bob.node.AdoptCard(t.Context(), id, card, w.now+100)
		return err
	}
	older, newer := alice.card(descriptor.CardRecord{}, w.now), alice.card(descriptor.CardRecord{}, w.now+1)
	other := alice.card(descriptor.CardRecord{Listed: true}, w.now+1)
	if err := adopt(newer); err != nil {
		t.Fatal(err)
	}
	bob.open() // the horizon is durable
	for name, c := range map[string]wire.Value{"older": older, "other claims": other} {
		if err := adopt(c); !errors.Is(err, fault.StaleDescriptor) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := adopt(newer); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := func() error {
		_, err := bob.node.AdoptCard(t.Context(), bob.id.ACEID(), newer, w.now+100)
		return err
	}(); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("the card of another: %v", err)
	}
}

func TestHandlePins(t *testing.T) {
	w := newWorld()
	alice, mallory, bob := w.newIdentity(t), w.newIdentity(t), w.newEndpoint(t, "", nil)
	address, err := descriptor.ParseHandleAddress("@alice@relay.example", wire.Production)
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(card wire.Value) error {
		_, err := bob.node.AdoptResolved(t.Context(), address, card, w.now+100)
		return err
	}
	if err := resolve(alice.card(descriptor.CardRecord{Handle: "other"}, w.now)); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("another handle: %v", err)
	}
	if err := resolve(alice.card(descriptor.CardRecord{Handle: "alice"}, w.now+1)); err != nil {
		t.Fatal(err)
	}
	bob.open() // the pin is durable
	if err := resolve(mallory.card(descriptor.CardRecord{Handle: "alice"}, w.now+1)); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("another identity: %v", err)
	}
	_, err = bob.node.AdoptCard(t.Context(), alice.id.ACEID(), alice.card(descriptor.CardRecord{}, w.now+2), w.now+100)
	if !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("the handle was dropped at its home: %v", err)
	}
	// The horizon is checked before the handle.
	_, err = bob.node.AdoptCard(t.Context(), alice.id.ACEID(), alice.card(descriptor.CardRecord{}, w.now), w.now+100)
	if !errors.Is(err, fault.StaleDescriptor) {
		t.Errorf("an older card without the handle: %v", err)
	}
}

// A relay that serves the descriptor of another identity pins nothing.
func TestDescriptorOfAnotherIdentity(t *testing.T) {
	w := newWorld()
	alice, bob, carol := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil), w.newEndpoint(t, "", nil)
	w.agents[alice.id.ACEID()] = w.agents[carol.id.ACEID()]
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("looked up: %v", err)
	}
	bob.view(func(tx *store.Tx) error {
		pinned, err := tx.Pinned()
		if len(pinned) != 0 {
			t.Errorf("pinned %v", pinned)
		}
		return err
	})
}

// A stranger's source is bounded before it is verified, and one that names
// another identity pins nothing.
func TestStrangersSource(t *testing.T) {
	w := newWorld()
	alice, bob, mallory := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil), w.newIdentity(t)
	body := func(source wire.Value) wire.Value {
		return wire.NewObject(wire.M("kind", wire.NewString("request")), wire.M("profile", wire.NewString(profile.TextID)),
			wire.M("note", wire.NewString("")), wire.M("source", source), wire.M("permit", wire.NewObject()))
	}
	for name, source := range map[string]wire.Value{
		"another identity": w.agents[bob.id.ACEID()],
		"no agent":         wire.NewObject(),
	} {
		r := alice.take(sealTo(alice, mallory.id, profile.ContactType, body(source), w.now))
		if r.Outcome != delivery.Dropped || r.Code != fault.InvalidAuthorization {
			t.Errorf("%s: %+v", name, r)
		}
	}
	alice.view(func(tx *store.Tx) error {
		pinned, err := tx.Pinned()
		if len(pinned) != 0 {
			t.Errorf("pinned %v", pinned)
		}
		return err
	})
}

// A stranger's request is held with a log as long as may be, and dropped with one
// more event.
func TestStrangersLongLog(t *testing.T) {
	w := newWorld()
	alice, mallory := w.newEndpoint(t, "open", nil), w.newIdentity(t)
	for mallory.id.State().Seq()+1 < wire.MaxStrangerKELEvents {
		mallory.delegate(mallory.id.State())
	}
	mallory.open()
	mallory.publish("")
	mallory.connect(alice)
	alice.pullOne(delivery.Delivered, "")
	mallory.delegate(mallory.id.State())
	mallory.open()
	mallory.publish("")
	mallory.connect(alice)
	alice.pullOne(delivery.Dropped, fault.InvalidAuthorization)
	// None of its signatures was verified: the log is not remembered.
	log := mallory.id.State().Value()
	verify := func() (bytes uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := alice.node.TestOnlyKELs().Verify(log, w.now); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if first, again := verify(), verify(); first < 10*again || first < 1<<16 {
		t.Errorf("the log is remembered: %d bytes were allocated to verify it, %d to find it", first, again)
	}
}

// Core packets are dropped where others are rejected, also when their content
// does not parse.
func TestBrokenContent(t *testing.T) {
	w, alice, bob := friends(t)
	text := packet.Content{Type: profile.TextType, SchemaDigest: "e91541145d670369cf651d062e6bb8a94ce2605d4a9f2261ceef1d8a29c2e7da", Body: textBody("x"), Prekey: newPrekey()}
	for _, c := range []struct {
		name    string
		content wire.Value
		outcome delivery.Outcome
		code    fault.Code
	}{
		{"no object", wire.NewArray(), delivery.Rejected, fault.InvalidBody},
		{"no prekey", text.Value().Without("prekey"), delivery.Rejected, fault.InvalidBody},
		{"other digest", text.Value().With("schemaDigest", wire.NewString(packet.PrekeyID(nil))), delivery.Rejected, fault.UnsupportedSchema},
		{"other body", text.Value().With("body", wire.NewObject()), delivery.Rejected, fault.InvalidBody},
		{"broken receipt", text.Value().With("type", wire.NewString(profile.ReceiptType)).Without("body"), delivery.Dropped, fault.InvalidBody},
		{"broken contact", text.Value().With("type", wire.NewString(profile.ContactType)).Without("body"), delivery.Dropped, fault.InvalidBody},
	} {
		posted := len(w.posted)
		r := alice.take(sealPlaintext(alice, bob.id, c.content.Canonical(), w.now))
		if r.Outcome != c.outcome || r.Code != c.code {
			t.Errorf("%s: %+v", c.name, r)
		}
		if receipts := len(w.posted) - posted; (receipts == 1) != (c.outcome == delivery.Rejected) {
			t.Errorf("%s: %d receipts", c.name, receipts)
		}
	}
}
