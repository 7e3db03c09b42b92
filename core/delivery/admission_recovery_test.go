package delivery_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// lose gives an endpoint a new store, as a reinstall that kept the identity.
func (e *endpoint) lose() {
	e.t.Helper()
	e.path = filepath.Join(e.t.TempDir(), "ace", "store.db")
	e.open()
	e.publish("")
}

// A receiver that lost everything but its identity takes in the next retry of a
// peer, answers it, and can write back (05#admission-recovery).
func TestLostStateComesBackWithARetry(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "x")
	w.now += 10
	alice.lose()
	alice.pullOne(delivery.Dropped, fault.UnknownPrekey)
	w.now += 60
	bob.attempt(sent.MessageID)
	got := alice.pullOne(delivery.Delivered, "")
	if got.Message == nil || got.Contact == nil || got.Contact.State != string(admission.Admitted) || got.Contact.Profile != "" {
		t.Fatalf("result %+v", got)
	}
	if body := string(got.Message.Body); body != `{"message":"x"}` {
		t.Errorf("the application gets %s", body)
	}
	alice.view(func(tx *store.Tx) error {
		_, pinned, err := tx.Pin(bob.id.ACEID())
		if err != nil || !pinned {
			t.Errorf("pinned %v: %v", pinned, err)
		}
		held, ok, err := tx.HeldPrekey(bob.id.ACEID())
		if err != nil || !ok || held.Pin != bob.id.State().LastHash() || held.Timestamp != w.now {
			t.Errorf("held prekey %+v: %v", held, err)
		}
		return nil
	})
	if !bytes.Equal(alice.permit(bob, store.PermitIssued).Raw, bob.permit(alice, store.PermitHeld).Raw) {
		t.Error("the proof is not on record as the permit issued")
	}
	bob.pullOne(delivery.Delivered, "")
	if bob.entry(sent.MessageID).State != store.Delivered {
		t.Error("no receipt came")
	}
	alice.send(bob, "back")
	bob.pullOne(delivery.Delivered, "")
}

// recoverable is a receiver that knows nobody and a sender that holds its
// permit.
type recoverable struct {
	world     *world
	to        *endpoint
	from      *endpoint
	content   packet.Content
	otherwise func(p *packet.Packet)
}

func newRecoverable(t *testing.T) *recoverable {
	t.Helper()
	w := newWorld()
	to, from := w.newEndpoint(t, "", nil), w.newEndpoint(t, "", nil)
	text, _ := to.set.Type(profile.TextType)
	r := &recoverable{world: w, to: to, from: from}
	r.content = packet.Content{
		Type: profile.TextType, SchemaDigest: text.Digest, Body: textBody("x"), Prekey: newPrekey(),
		Admission: &packet.Admission{
			Proof:  newPermit(t, to.id, from.id.ACEID(), w.now).Value(),
			Permit: newPermit(t, from.id, to.id.ACEID(), w.now).Value(),
			Source: w.agents[from.id.ACEID()],
		},
	}
	return r
}

func newPermit(t testing.TB, issuer *kel.Identity, subject string, now int64) *admission.Permit {
	t.Helper()
	p, err := admission.IssuePermit(issuer, subject, now, 3600)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *recoverable) take(t *testing.T) delivery.Result {
	t.Helper()
	plaintext := r.content.Value().Canonical()
	p := sealPlaintext(r.to, r.from.id, plaintext, r.world.now)
	if r.otherwise != nil {
		r.otherwise(p)
	}
	return r.to.take(p)
}

// The checks of 05#admission-recovery steps 2 and 3 in their order: in each case
// what comes after the fault is wrong too. Nothing is recorded and nobody is
// answered.
func TestRecoveryRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, r *recoverable)
		code  fault.Code
	}{
		{"old packet", func(t *testing.T, r *recoverable) {
			r.otherwise = func(p *packet.Packet) { p.Timestamp -= wire.OfflineWindowSeconds + 1 }
		}, fault.StaleTimestamp},
		{"type not installed", func(t *testing.T, r *recoverable) {
			r.content.Type = "example:none:1"
			r.content.Admission.Source = r.world.agents[r.to.id.ACEID()]
		}, fault.UnsupportedSchema},
		{"no recovery data", func(t *testing.T, r *recoverable) { r.content.Admission = nil }, fault.NotPermitted},
		{"proof of another issuer", func(t *testing.T, r *recoverable) {
			r.content.Admission.Proof = newPermit(t, r.world.newIdentity(t).id, r.from.id.ACEID(), r.world.now).Value()
			r.content.Admission.Source = r.world.agents[r.to.id.ACEID()]
		}, fault.NotPermitted},
		{"proof of another subject", func(t *testing.T, r *recoverable) {
			r.content.Admission.Proof = newPermit(t, r.to.id, r.world.newIdentity(t).id.ACEID(), r.world.now).Value()
		}, fault.NotPermitted},
		{"proof that has ended", func(t *testing.T, r *recoverable) { r.world.now += 3600 }, fault.NotPermitted},
		{"proof of a superseded key", func(t *testing.T, r *recoverable) {
			r.world.now++
			r.to.delegate(r.to.id.State())
			r.to.open()
		}, fault.NotPermitted},
		{"source of another identity", func(t *testing.T, r *recoverable) {
			r.content.Admission.Source = r.world.agents[r.to.id.ACEID()]
			r.otherwise = forge
		}, fault.InvalidAuthorization},
		{"source that has expired", func(t *testing.T, r *recoverable) {
			r.world.now += 86400
			r.content.Admission.Proof = newPermit(t, r.to.id, r.from.id.ACEID(), r.world.now).Value()
			r.otherwise = forge
		}, fault.InvalidAuthorization},
		{"source behind the pin", func(t *testing.T, r *recoverable) {
			r.world.now++
			r.from.delegate(r.from.id.State())
			r.to.update(func(tx *store.Tx) error {
				return tx.SetPin(r.from.id.ACEID(), store.Pin{KEL: r.from.id.State().Raw(), FetchedAt: r.world.now})
			})
		}, fault.InvalidAuthorization},
		{"signature", func(t *testing.T, r *recoverable) {
			r.otherwise = forge
			r.content.Admission.Permit = r.content.Admission.Proof
		}, fault.InvalidSignature},
		{"reply permit", func(t *testing.T, r *recoverable) {
			r.content.Admission.Permit = r.content.Admission.Proof
			r.content.Body = wire.NewObject()
		}, fault.InvalidAuthorization},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecoverable(t)
			c.spoil(t, r)
			pin := r.to.pin(r.from)
			if got := r.take(t); got.Outcome != delivery.Dropped || got.Code != c.code || got.Contact != nil {
				t.Errorf("got %+v, want dropped with %s", got, c.code)
			}
			r.to.wantState(r.from, "")
			if r.to.pin(r.from) != pin || r.to.permit(r.from, store.PermitHeld).Raw != nil || r.to.permit(r.from, store.PermitIssued).Raw != nil {
				t.Error("something was recorded")
			}
			r.to.view(func(tx *store.Tx) error {
				if _, held, err := tx.HeldPrekey(r.from.id.ACEID()); held || err != nil {
					t.Errorf("a prekey is held: %v", err)
				}
				return nil
			})
			if len(r.world.posted) > 0 || r.world.asked > 0 {
				t.Error("a relay was asked")
			}
		})
	}
}

func forge(p *packet.Packet) {
	p.Signature.Value = bytes.Clone(p.Signature.Value)
	p.Signature.Value[0] ^= 1
}

// pin returns the hash of the last event pinned for a peer, "" without a pin.
func (e *endpoint) pin(of *endpoint) (kelDigest string) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		p, _, err := tx.Pin(of.id.ACEID())
		kelDigest = string(p.KEL)
		return err
	})
	return kelDigest
}

// Once the sender is recorded, what the later steps say is said to it
// (06#receive-pipeline, Recovery candidates).
func TestRecoveredSenderIsAnswered(t *testing.T) {
	t.Run("body", func(t *testing.T) {
		r := newRecoverable(t)
		r.content.Body = wire.NewObject(wire.M("message", wire.NewInt(1)))
		if got := r.take(t); got.Outcome != delivery.Rejected || got.Code != fault.InvalidBody || got.Contact == nil {
			t.Errorf("got %+v", got)
		}
		r.to.wantState(r.from, string(admission.Admitted))
		if len(r.world.posted) != 1 || r.world.posted[0].To != r.from.id.ACEID() {
			t.Error("no receipt was posted")
		}
		r.to.view(func(tx *store.Tx) error {
			if _, held, err := tx.HeldPrekey(r.from.id.ACEID()); !held || err != nil {
				t.Errorf("the prekey is not held: %v", err)
			}
			return nil
		})
	})
	t.Run("no room", func(t *testing.T) {
		r := newRecoverable(t)
		r.to.room = 1
		r.to.open()
		r.to.update(func(tx *store.Tx) error {
			return tx.AddMessage(store.Message{MessageID: "00000000-0000-4000-8000-000000000000", Peer: r.from.id.ACEID(), Body: []byte("{}")})
		})
		if got := r.take(t); got.Outcome != delivery.Hold || got.Contact == nil {
			t.Errorf("got %+v", got)
		}
		r.to.wantState(r.from, string(admission.Admitted))
	})
	t.Run("long log", func(t *testing.T) {
		r := newRecoverable(t)
		for range wire.MaxStrangerKELEvents {
			r.world.now++
			r.from.delegate(r.from.id.State())
		}
		r.from.open()
		r.from.publish("")
		r.content.Admission.Source = r.world.agents[r.from.id.ACEID()]
		r.content.Admission.Permit = newPermit(t, r.from.id, r.to.id.ACEID(), r.world.now).Value()
		if got := r.take(t); got.Outcome != delivery.Delivered {
			t.Errorf("got %+v", got)
		}
	})
}

// A peer with a row but without a pin is recovered too, and its row's profile
// stays; one whose pin is only behind is not a recovery candidate
// (05#admission-recovery step 2).
func TestRecoveryOfAPeerWithARow(t *testing.T) {
	r := newRecoverable(t)
	row := store.Contact{Peer: r.from.id.ACEID(), State: string(admission.Pending), Profile: profile.TextID, Since: r.world.now, ExpiresAt: r.world.now + 600}
	r.to.update(func(tx *store.Tx) error { return tx.SetContact(row) })
	got := r.take(t)
	if got.Outcome != delivery.Delivered || got.Contact == nil || got.Contact.Profile != profile.TextID || got.Contact.ExpiresAt != 0 {
		t.Errorf("got %+v", got)
	}
	r.to.wantState(r.from, string(admission.Admitted))

	r.world.now++
	r.from.delegate(r.from.id.State())
	r.from.open()
	r.from.publish("")
	r.content.Admission.Source = r.world.agents[r.from.id.ACEID()]
	r.content.Admission.Permit = newPermit(t, r.from.id, r.to.id.ACEID(), r.world.now).Value()
	r.world.lookup = fault.New(fault.UnknownPeer, "unknown")
	if got := r.take(t); got.Outcome != delivery.Dropped || got.Code != fault.NotPermitted {
		t.Errorf("got %+v", got)
	}
}

// A sender that is blocked between step 2 and the record stays so.
func TestBlockedWhileBeingRecovered(t *testing.T) {
	r := newRecoverable(t)
	p := sealPlaintext(r.to, r.from.id, r.content.Value().Canonical(), r.world.now)
	got, err := r.to.node.TestOnlyReceiveCandidate(t.Context(), p.Value(), r.world.now, func() {
		r.to.update(func(tx *store.Tx) error {
			return tx.SetContact(store.Contact{Peer: r.from.id.ACEID(), State: string(admission.Blocked)})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Outcome != delivery.Dropped || got.Code != fault.NotPermitted || got.Contact != nil {
		t.Errorf("got %+v", got)
	}
	r.to.wantState(r.from, string(admission.Blocked))
	if r.to.pin(r.from) != "" {
		t.Error("pinned")
	}
}

// An admitted peer that lost only its pin keeps its row, and nothing is told of
// the table.
func TestRecoveryOfAnAdmittedPeer(t *testing.T) {
	r := newRecoverable(t)
	row := store.Contact{Peer: r.from.id.ACEID(), State: string(admission.Admitted), Profile: profile.TextID, Since: 7}
	r.to.update(func(tx *store.Tx) error { return tx.SetContact(row) })
	if got := r.take(t); got.Outcome != delivery.Delivered || got.Contact != nil {
		t.Errorf("got %+v", got)
	}
	r.to.view(func(tx *store.Tx) error {
		if got, _, err := tx.Contact(row.Peer, r.world.now); got != row || err != nil {
			t.Errorf("row %+v: %v", got, err)
		}
		return nil
	})
}
