package delivery_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Blocking drops the prekey held of a peer (04#peer-prekeys) and keeps its
// permits. Unblocking lets the permit it holds admit it again (05#blocks).
func TestBlockAndUnblock(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	alice.pull()
	bob.pull()
	held := alice.permit(bob, store.PermitHeld)
	if _, err := alice.node.Block(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	alice.view(func(tx *store.Tx) error {
		if _, ok, err := tx.HeldPrekey(bob.id.ACEID()); ok || err != nil {
			t.Errorf("the prekey is still held: %v", err)
		}
		return nil
	})
	if held.Raw == nil || string(alice.permit(bob, store.PermitHeld).Raw) != string(held.Raw) {
		t.Error("the permit is not held any more")
	}
	sent := bob.send(alice, "y")
	alice.pullOne(delivery.Dropped, fault.NotPermitted)
	if _, err := alice.node.Unblock(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	alice.wantState(bob, "")
	w.now += 60
	bob.attempt(sent.MessageID)
	alice.pullOne(delivery.Delivered, "")
	alice.wantState(bob, string(admission.Admitted))
}

// A store that has lost its block can still tell the relay to lift it, and takes
// nothing from a peer that is admitted here.
func TestUnblockWithoutABlock(t *testing.T) {
	w, alice, bob := friends(t)
	decision, err := alice.node.Unblock(t.Context(), bob.id.ACEID(), w.now)
	if err != nil || decision.Blocked || decision.Revision != w.now {
		t.Errorf("decision %+v: %v", decision, err)
	}
	alice.wantState(bob, string(admission.Admitted))
	for _, id := range []string{alice.id.ACEID(), "bob"} {
		if _, err := alice.node.Block(t.Context(), id, w.now); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("blocked %s: %v", id, err)
		}
		if _, err := alice.node.Unblock(t.Context(), id, w.now); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("unblocked %s: %v", id, err)
		}
	}
}

func TestForget(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "open", nil)
	befriend(alice, carl)
	waiting, other := alice.enqueue(bob, "x"), alice.enqueue(carl, "y")
	alice.update(func(tx *store.Tx) error { return tx.SetName(bob.id.ACEID(), "bob") })
	pin := alice.pin(bob)
	abandoned, err := alice.node.Forget(t.Context(), bob.id.ACEID(), w.now)
	if err != nil || abandoned != 1 {
		t.Fatalf("%d abandoned: %v", abandoned, err)
	}
	alice.wantState(bob, "")
	if e := alice.entry(waiting.MessageID); !e.Abandoned || alice.entry(other.MessageID).State != store.Pending {
		t.Errorf("entry %+v", e)
	}
	if alice.permit(bob, store.PermitHeld).Raw != nil || alice.permit(bob, store.PermitIssued).Raw != nil {
		t.Error("permits are left")
	}
	if alice.pin(bob) != pin || pin == "" {
		t.Error("the pin is gone")
	}
	alice.view(func(tx *store.Tx) error {
		if name, err := tx.Name(bob.id.ACEID()); name != "" || err != nil {
			t.Errorf("name %q: %v", name, err)
		}
		return nil
	})
	if _, err := alice.node.Forget(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("forgotten twice: %v", err)
	}
	if _, err := alice.node.Block(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.node.Forget(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("a block was forgotten: %v", err)
	}
}

// After a new delegation each admitted peer is due a permit, until a request,
// a receipt or a retry has carried it (05#delivery-permits).
func TestPermitsDue(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "open", nil)
	befriend(alice, carl)
	due := func() (peers []string) {
		t.Helper()
		rows, err := alice.node.PermitsDue(t.Context(), w.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			peers = append(peers, row.Peer)
		}
		return peers
	}
	if got := due(); len(got) != 0 {
		t.Fatalf("due before: %v", got)
	}
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	alice.publish("open")
	if got := due(); len(got) != 2 {
		t.Fatalf("due: %v", got)
	}
	row, err := alice.node.SendRequest(t.Context(), delivery.ContactRequest{To: bob.id.ACEID()}, w.now)
	if err != nil || row.State != string(admission.Admitted) {
		t.Fatalf("row %+v: %v", row, err)
	}
	if got := due(); len(got) != 1 || got[0] != carl.id.ACEID() {
		t.Errorf("due after a request: %v", got)
	}
	old := bob.permit(alice, store.PermitHeld)
	bob.pullOne(delivery.Delivered, "")
	alice.pullOne(delivery.Delivered, "")
	if got := bob.permit(alice, store.PermitHeld); got.IssuedAt <= old.IssuedAt {
		t.Error("the fresh permit is not held")
	}
	if got := alice.permit(bob, store.PermitHeld); got.IssuedAt != w.now {
		t.Error("the answer's permit is not held")
	}
	carl.send(alice, "x")
	alice.pull()
	if got := due(); len(got) != 0 {
		t.Errorf("due after a receipt with a renewal: %v", got)
	}
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	if got := due(); len(got) != 2 {
		t.Errorf("due after another delegation: %v", got)
	}
	w.now += wire.MaxSigningKeyLifetime
	if got := due(); len(got) != 0 {
		t.Errorf("an identity that cannot sign is due: %v", got)
	}
}

// A request without a stated profile is about the recorded one, else about one
// that both list.
func TestProfileOfARefresh(t *testing.T) {
	for _, c := range []struct{ recorded, want string }{
		{profile.CommerceID, profile.CommerceID},
		{profile.TextID, profile.TextID},
		{"", profile.TextID},
		{"example:gone:1", profile.TextID},
	} {
		w := newWorld()
		alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
		for _, e := range []*endpoint{alice, bob} {
			if err := e.set.Install(profile.OfficialByID(profile.CommerceID)); err != nil {
				t.Fatal(err)
			}
			e.publish("open")
		}
		befriend(bob, alice)
		alice.update(func(tx *store.Tx) error {
			return tx.SetContact(store.Contact{Peer: bob.id.ACEID(), State: string(admission.Admitted), Profile: c.recorded})
		})
		// Bob holds the request: he does not know alice any more.
		bob.update(func(tx *store.Tx) error { return tx.DeleteContact(alice.id.ACEID()) })
		if _, err := alice.node.SendRequest(t.Context(), delivery.ContactRequest{To: bob.id.ACEID()}, w.now); err != nil {
			t.Errorf("%q: %v", c.recorded, err)
			continue
		}
		r := bob.pullOne(delivery.Delivered, "")
		if r.Request == nil {
			t.Fatalf("result %+v", r)
		}
		if got, err := delivery.DecodeRequest(*r.Request); err != nil || got.Profile != c.want {
			t.Errorf("%q is recorded: the request is about %q, %v", c.recorded, got.Profile, err)
		}
	}
}
