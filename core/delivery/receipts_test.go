package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestReceiptsAndContactsUseThePublishedPrekey: although a peer prekey is held.
// They carry the one that is offered (06#receipts).
func TestReceiptsAndContactsUseThePublishedPrekey(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	alice.pull()
	bob.pull()
	if bob.heldOf(alice) == nil {
		t.Fatal("bob holds no peer prekey: the test does not look")
	}
	w.now++
	alice.send(bob, "y")
	bob.pullOne(delivery.Delivered, "")
	receipt := alice.contentOf(w.last())
	if receipt.Type != profile.ReceiptType || !bytes.Equal(receipt.Prekey, bob.slots(alice)[store.SlotOffered]) {
		t.Errorf("%s carries another prekey than the one offered", receipt.Type)
	}
	bob.connect(alice)
	request := alice.contentOf(w.last())
	if request.Type != profile.ContactType || !bytes.Equal(request.Prekey, bob.slots(alice)[store.SlotOffered]) {
		t.Errorf("%s carries another prekey than the one offered", request.Type)
	}
}

// TestReceiptIsOneAttempt: what no relay takes is not sent again, and is never in
// the Outbox (06#receipts).
func TestReceiptIsOneAttempt(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	w.refuse = fault.New(fault.NotPermitted, "no")
	posted := len(w.posted)
	alice.pullOne(delivery.Delivered, "")
	w.refuse = nil
	w.now += 3600
	alice.pull()
	if n := len(w.posted) - posted; n != 1 || alice.outboxSize() > 0 {
		t.Errorf("%d posts, %d in the outbox", n, alice.outboxSize())
	}
}

// deaf is a network with a relay that takes nothing.
type deaf struct {
	endpointNet
	relay string
	tried []string
}

func (n *deaf) Post(ctx context.Context, relay string, raw, permit []byte) error {
	n.tried = append(n.tried, relay)
	if relay == n.relay {
		return fault.New(fault.RelayUnavailable, "no answer")
	}
	return n.endpointNet.Post(ctx, relay, raw, permit)
}

// TestReceiptsToADeafRelay: a peer that lists a relay which never answers costs
// the inbox one wait, not one for each of its messages.
func TestReceiptsToADeafRelay(t *testing.T) {
	w, alice, bob := friends(t)
	net := &deaf{endpointNet{w, alice.id.ACEID()}, "https://deaf.example", nil}
	alice.replaceNet(net)
	w.now++
	bob.moveTo(alice, net.relay, relay)
	for _, step := range []struct {
		after int64
		want  []string
	}{
		{0, []string{net.relay, relay}},
		{1, []string{relay}},
		{298, []string{relay}},
		{1, []string{net.relay, relay}},
	} {
		w.now += step.after
		net.tried = nil
		bob.send(alice, "x")
		alice.pullOne(delivery.Delivered, "")
		if !slices.Equal(net.tried, step.want) {
			t.Errorf("%d s later: tried %q, want %q", step.after, net.tried, step.want)
		}
	}
}

// moveTo publishes a descriptor with other relays, which a peer looks up.
func (e *endpoint) moveTo(peer *endpoint, relays ...string) {
	e.t.Helper()
	agent, err := descriptor.Build(e.id, descriptor.Fields{
		ExpiresAt: e.world.now + 86400, Relays: relays, Prekey: newPrekey(),
	}, e.world.now, -1, descriptor.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	e.world.agents[e.id.ACEID()] = agent.Value()
	if _, err := peer.node.Lookup(e.t.Context(), e.id.ACEID(), e.world.now); err != nil {
		e.t.Fatal(err)
	}
}

// TestDeafPeerDoesNotKeepTheInbox: however many messages it has sent, those of
// others are receipted and acknowledged after MAX_FETCH_ATTEMPTS fetches, since
// none of the fetches had a final disposition for any of them.
func TestDeafPeerDoesNotKeepTheInbox(t *testing.T) {
	w, alice, bob := friends(t)
	carol := w.newEndpoint(t, "", nil)
	befriend(carol, alice)
	net := &deaf{endpointNet{w, alice.id.ACEID()}, "https://deaf.example", nil}
	alice.replaceNet(net)
	w.now++
	bob.moveTo(alice, net.relay)
	for range 5 {
		bob.send(alice, "x")
	}
	out := carol.send(alice, "y")
	for fetch := range wire.MaxFetchAttempts {
		if carol.pull(); carol.entry(out.MessageID).State != store.Pending {
			t.Fatalf("after %d fetches: settled: the test does not look", fetch)
		}
		alice.pull()
	}
	carol.pull()
	if e := carol.entry(out.MessageID); e.State != store.Delivered {
		t.Errorf("after %d fetches the message of another is %s", wire.MaxFetchAttempts, e.State)
	}
	if left := len(w.queues[alice.id.ACEID()]); left != 0 {
		t.Errorf("%d entries are left at the relay", left)
	}
}

// TestReceiptNeedsABoundDescriptor: an expired or stale descriptor is refreshed
// before a receipt, and none is sent to it when that fails (06#receipts).
func TestReceiptNeedsABoundDescriptor(t *testing.T) {
	for _, c := range []struct {
		name    string
		expired bool
		lookup  error
		outcome delivery.Outcome
		code    fault.Code
		receipt bool
	}{
		{"expired", true, nil, delivery.Delivered, "", true},
		{"stale", false, nil, delivery.Delivered, "", true},
		{"expired and unknown", true, fault.New(fault.UnknownPeer, "gone"), delivery.Delivered, "", false},
		{"stale and unknown", false, fault.New(fault.UnknownPeer, "gone"), delivery.Delivered, "", false},
		{"expired and the relay is down", true, fault.New(fault.RelayUnavailable, "down"), delivery.Retry, fault.RelayUnavailable, false},
		{"stale and the relay is down", false, fault.New(fault.RelayUnavailable, "down"), delivery.Retry, fault.RelayUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, alice, bob := friends(t)
			w.now += 10
			if c.expired {
				w.now += 86400
			} else {
				bob.delegate(bob.id.State())
				bob.open()
				alice.update(func(tx *store.Tx) error {
					return tx.SetPin(bob.id.ACEID(), store.Pin{KEL: bob.id.State().Raw(), FetchedAt: w.now})
				})
			}
			bob.publish("") // a new prekey
			w.lookup = c.lookup
			posted := len(w.posted)
			r := alice.take(sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now))
			if r.Outcome != c.outcome || r.Code != c.code || r.Message == nil {
				t.Errorf("got %+v", r)
			}
			if sent := len(w.posted) > posted; sent != c.receipt {
				t.Errorf("a receipt was posted: %t", sent)
			}
			if c.receipt {
				bob.contentOf(w.last()) // fails unless it uses the new one
			}
		})
	}
}

// TestReceiptsAreNotReceipted: neither a receipt nor its duplicate, nor one that
// answers nothing or is refused (06#receive-pipeline).
func TestReceiptsAreNotReceipted(t *testing.T) {
	w, alice, bob := friends(t)
	body := delivery.ReceiptBody{MessageID: suite.NewMessageID(), Outcome: delivery.OutcomeDelivered}
	receipt := sealTo(alice, bob.id, profile.ReceiptType, body.Value(), w.now)
	refused := sealTo(alice, bob.id, profile.ReceiptType, body.Value().With("code", wire.NewString("x")), w.now)
	posted := len(w.posted)
	for _, c := range []struct {
		name    string
		got     delivery.Result
		outcome delivery.Outcome
	}{
		{"one that answers nothing", alice.take(receipt), delivery.Delivered},
		{"its duplicate", alice.take(receipt), delivery.Duplicate},
		{"one that the core rule refuses", alice.take(refused), delivery.Dropped},
	} {
		if c.got.Outcome != c.outcome || c.got.Receipt != nil {
			t.Errorf("%s: %+v", c.name, c.got)
		}
	}
	if len(w.posted) != posted {
		t.Errorf("%d packets posted", len(w.posted)-posted)
	}
}

// TestContactsNeedABoundDescriptor: a request to a peer whose descriptor has
// expired is encrypted to the prekey of the one it has now, or not sent
// (06#receipts).
func TestContactsNeedABoundDescriptor(t *testing.T) {
	w, alice, bob := friends(t)
	w.now += 86400
	alice.publish("open")
	bob.publish("")
	request := delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}
	posted := len(w.posted)
	w.lookup = fault.New(fault.RelayUnavailable, "down")
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); !errors.Is(err, fault.RelayUnavailable) || len(w.posted) != posted {
		t.Errorf("%v, %d packets posted", err, len(w.posted)-posted)
	}
	w.lookup = nil
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); err != nil {
		t.Fatal(err)
	}
	if got := alice.contentOf(w.last()).Type; got != profile.ContactType {
		t.Errorf("posted %s", got)
	}
}

// TestReceiptWithABadRenewalSettlesNothing: a receipt whose permit is not one of
// its sender's to this endpoint is dropped, whatever its outcome says
// (06#receipts).
func TestReceiptWithABadRenewalSettlesNothing(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "x")
	held := bob.permit(alice, store.PermitHeld)
	w.now++
	body := delivery.ReceiptBody{MessageID: sent.MessageID, Outcome: delivery.OutcomeDelivered}
	for _, c := range []struct {
		permit  wire.Value
		outcome delivery.Outcome
		code    fault.Code
		state   string
	}{
		{newPermit(t, alice.id, w.newIdentity(t).id.ACEID(), w.now).Value(), delivery.Dropped, fault.InvalidAuthorization, store.Pending},
		{newPermit(t, bob.id, alice.id.ACEID(), w.now).Value(), delivery.Dropped, fault.InvalidAuthorization, store.Pending},
		{newPermit(t, alice.id, bob.id.ACEID(), w.now).Value(), delivery.Delivered, "", store.Delivered},
	} {
		body.Permit = c.permit
		got := bob.take(sealTo(bob, alice.id, profile.ReceiptType, body.Value(), w.now))
		if got.Outcome != c.outcome || got.Code != c.code || bob.entry(sent.MessageID).State != c.state {
			t.Errorf("got %+v, the message is %s", got, bob.entry(sent.MessageID).State)
		}
		if renewed := !bytes.Equal(bob.permit(alice, store.PermitHeld).Raw, held.Raw); renewed != (c.code == "") {
			t.Errorf("another permit is held: %t", renewed)
		}
	}
}
