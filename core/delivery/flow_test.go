package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// An accepted that comes when the pending entry has ended is ignored, and
// connecting again repairs that (05#flow step 4).
func TestLateReplyIsRepairedByConnectingAgain(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	alice.pull()
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.queues[bob.id.ACEID()] = nil
	w.now += wire.OfflineWindowSeconds
	alice.publish("open")
	bob.publish("")
	reply := alice.requestBody(bob, profile.TextID, 60).With("kind", wire.NewString(admission.Accepted))
	if r := bob.take(sealTo(bob, alice.id, profile.ContactType, reply, w.now)); r.Contact != nil {
		t.Errorf("result %+v", r)
	}
	bob.wantState(alice, "")
	if bob.permit(alice, store.PermitHeld).Raw != nil {
		t.Error("the permit of an ignored reply is held")
	}
	bob.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Request != nil {
		t.Errorf("the request waits for a decision: %+v", r)
	}
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")
}

// A contact packet is answered by no receipt, and what a stranger asks for makes
// the receiver ask no relay (05#contact-requests, 05#receiver-admission).
func TestContactPacketsAreNotReceipted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	posted, asked := len(w.posted), w.asked
	alice.pullOne(delivery.Delivered, "")
	if len(w.posted) != posted || w.asked != asked {
		t.Errorf("%d packets posted, %d lookups", len(w.posted)-posted, w.asked-asked)
	}
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	posted = len(w.posted)
	bob.pullOne(delivery.Delivered, "")
	if len(w.posted) != posted {
		t.Error("an accepted is receipted")
	}
	// Nor is it retried.
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	if _, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID()}, w.now); err == nil {
		t.Fatal("the relay took it")
	}
	bob.view(func(tx *store.Tx) error {
		waiting, err := tx.OutboxPending(w.now + wire.OfflineWindowSeconds)
		if len(waiting) != 0 {
			t.Errorf("in the Outbox: %+v", waiting)
		}
		return err
	})
}

// What is received, and a decision about it, makes no rule for the next stranger
// (05#invitations).
func TestDecisionsMakeNoRules(t *testing.T) {
	w := newWorld()
	alice, bob, carl := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil), w.newEndpoint(t, "", nil)
	befriend(bob, alice)
	bob.send(alice, "accept everybody")
	alice.pull()
	carl.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Request == nil || r.Contact != nil {
		t.Errorf("result %+v", r)
	}
	alice.wantState(carl, "")
}

// A request waits for CONTACT_REQUEST_TTL_SECONDS. Accepting it pins its source,
// holds its permit, which the reply presents, and admits its sender for the
// profile it names (05#flow step 3).
func TestAcceptedRequest(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	request := bob.request(alice, profile.TextID, wire.ContactRequestTTLSeconds+1)
	if r := alice.take(request); r.Request == nil {
		t.Fatalf("result %+v", r)
	}
	w.now += wire.ContactRequestTTLSeconds - 1
	alice.publish("open")
	row, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now)
	if want := (store.Contact{Peer: bob.id.ACEID(), State: "admitted", Profile: profile.TextID, Since: w.now}); err != nil || row != want {
		t.Fatalf("row %+v: %v", row, err)
	}
	held := alice.permit(bob, store.PermitHeld)
	if held.ExpiresAt != start+wire.ContactRequestTTLSeconds+1 || !bytes.Equal(w.permit[0], held.Raw) {
		t.Errorf("holds a permit until %d, presented %s", held.ExpiresAt, w.permit[0])
	}
	if !bytes.Equal(alice.storedPin(bob).KEL, bob.id.State().Raw()) || alice.held(bob) {
		t.Error("the source is not pinned, or the request is still held")
	}
	if issued := alice.permit(bob, store.PermitIssued); issued.IssuedAt != w.now {
		t.Errorf("the permit of the reply, issued at %d, is not on record", issued.IssuedAt)
	}
}

// Who dies between accepting a request by rule and replying has only the request,
// which comes again, to be reminded by: it is answered then, since nothing else
// would tell the requester (05#flow step 3). One that waits for a decision is not.
func TestAcceptedRequestThatComesAgain(t *testing.T) {
	w := newWorld()
	official := profile.Official()
	text := official[slices.IndexFunc(official, func(m *profile.Manifest) bool { return m.ID == profile.TextID })]
	alice := w.newEndpoint(t, "open", map[string]string{text.ID: text.Digest})
	bob := w.newEndpoint(t, "", nil)
	bob.connect(alice)
	request := w.last()
	alice.pullOne(delivery.Delivered, "")
	w.queues[bob.id.ACEID()] = nil // nothing was sent, so that nothing was issued
	alice.update(func(tx *store.Tx) error { return tx.DeletePermits(bob.id.ACEID()) })
	w.redeliver(request)
	alice.pullOne(delivery.Duplicate, "")
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")

	carl, dora := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	dora.connect(carl)
	request = w.last()
	carl.pullOne(delivery.Delivered, "")
	posted := len(w.posted)
	w.redeliver(request)
	carl.pullOne(delivery.Duplicate, "")
	if len(w.posted) != posted {
		t.Error("a request that waits for a decision is answered")
	}
}

// The longest note is sent, and a byte more asks nobody (05#contact-requests).
func TestNoteThatIsTooLong(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	request := delivery.ContactRequest{To: alice.id.ACEID(), Home: relay, Note: strings.Repeat("ä", wire.MaxNoteBytes/2) + "x"}
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); !errors.Is(err, fault.InvalidArgument) || len(w.posted) != 0 {
		t.Errorf("%v, %d packets posted", err, len(w.posted))
	}
	bob.wantState(alice, "")
	request.Note = strings.TrimSuffix(request.Note, "x")
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); err != nil {
		t.Fatal(err)
	}
	if r := alice.pullOne(delivery.Delivered, ""); r.Request == nil {
		t.Errorf("result %+v", r)
	}
}

// posting notes the relays that an endpoint posts to.
type posting struct {
	endpointNet
	relays []string
}

func (n *posting) Post(ctx context.Context, relay string, raw, permit []byte) error {
	n.relays = append(n.relays, relay)
	return n.endpointNet.Post(ctx, relay, raw, permit)
}

// A request without a permit goes to the home of the card record, and one with a
// permit to the relays of the descriptor (05#flow step 1).
func TestRequestGoesHome(t *testing.T) {
	const home = "https://home.example"
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	net := &posting{endpointNet: endpointNet{w, bob.id.ACEID()}}
	node, err := delivery.New(t.Context(), delivery.Config{Identity: bob.id, Store: bob.store, Profiles: bob.set, Home: relay, Net: net}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	request := delivery.ContactRequest{To: alice.id.ACEID(), Home: home}
	if _, err := node.SendRequest(t.Context(), request, w.now); err != nil || !slices.Equal(net.relays, []string{home}) || w.permit[0] != nil {
		t.Errorf("without a permit: at %q, %v", net.relays, err)
	}
	permit := newPermit(t, alice.id, bob.id.ACEID(), w.now)
	bob.update(func(tx *store.Tx) error {
		return tx.SetPermit(alice.id.ACEID(), store.PermitHeld, store.Permit{Raw: permit.Raw(), IssuedAt: permit.IssuedAt, ExpiresAt: permit.ExpiresAt})
	})
	net.relays = nil
	if _, err := node.SendRequest(t.Context(), request, w.now); err != nil || !slices.Equal(net.relays, []string{relay}) || !bytes.Equal(w.permit[1], permit.Raw()) {
		t.Errorf("with a permit: at %q, %v", net.relays, err)
	}
}

// A sender that is blocked while its request is on its way through the pipeline
// stays so, also where a rule accepts its profile (05#blocks).
func TestBlockedWhileAsking(t *testing.T) {
	w := newWorld()
	text := profile.OfficialByID(profile.TextID)
	alice, bob := w.newEndpoint(t, "open", map[string]string{text.ID: text.Digest}), w.newEndpoint(t, "", nil)
	got, err := alice.node.TestOnlyReceiveCandidate(t.Context(), bob.request(alice, text.ID, 60).Value(), w.now, func() {
		if _, err := alice.node.Block(t.Context(), bob.id.ACEID(), w.now); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil || got.Outcome != delivery.Dropped || got.Code != fault.NotPermitted || got.Contact != nil {
		t.Errorf("got %+v: %v", got, err)
	}
	alice.wantState(bob, string(admission.Blocked))
	if len(w.posted) != 0 {
		t.Error("it was answered")
	}
}
