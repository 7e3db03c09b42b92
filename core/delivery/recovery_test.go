package delivery_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// A receiver that lost a peer prekey asks for another; the retry uses the
// published one and carries what an admission recovery needs.
func TestLostPeerPrekey(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "one")
	alice.pull()
	bob.pull()
	alice.update(func(tx *store.Tx) error {
		keys, err := tx.Prekeys(bob.id.ACEID())
		for _, k := range keys {
			err = errors.Join(err, tx.DeletePrekey(k.ID))
		}
		return err
	})
	sent := bob.send(alice, "two")
	alice.pullOne(delivery.Rejected, fault.UnknownPrekey)
	bob.pullOne(delivery.Delivered, "")
	if e := bob.entry(sent.MessageID); e.State != store.Pending || e.NextAttemptAt != w.now+60 {
		t.Fatalf("entry %+v", e)
	}
	w.now += 60
	bob.attempt(sent.MessageID)
	if w.last().Prekey != alice.published() {
		t.Error("the retry uses another key than the published one")
	}
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	if bob.entry(sent.MessageID).State != store.Delivered {
		t.Error("not delivered")
	}
}

// After a new signing key the receiver refreshes its pin once per interval and
// then takes the packet in.
func TestSignatureAheadOfThePin(t *testing.T) {
	w, alice, bob := friends(t)
	w.now += 10
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("")
	bob.send(alice, "signed by the new key")
	w.lookup = fault.New(fault.RelayUnavailable, "down")
	alice.pullOne(delivery.Retry, fault.RelayUnavailable)
	w.lookup = nil
	asked := w.asked
	alice.pullOne(delivery.Retry, fault.FetchFailed)
	if w.asked != asked {
		t.Error("a suppressed refresh asked a relay")
	}
	w.now += wire.PinRefreshIntervalSeconds
	alice.pullOne(delivery.Delivered, "")
}

func TestOldPacketsAndForgedOnes(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	genuine := w.last()
	alice.pull()
	forged := *genuine
	forged.Timestamp++
	w.redeliver(&forged)
	alice.pullOne(delivery.Dropped, fault.InvalidSignature)
	w.now += wire.OfflineWindowSeconds + 1
	w.redeliver(genuine)
	alice.pullOne(delivery.Dropped, fault.StaleTimestamp)
	alice.view(func(tx *store.Tx) error {
		log, err := tx.Audits(store.AuditFilter{Events: audit.Match("message.*")})
		if len(log) != 2 || log[0].Code != "invalid_signature" || log[0].Peer != bob.id.ACEID() {
			t.Errorf("audit log %+v", log)
		}
		return err
	})
}

func TestMessageOfAStrangerIsDropped(t *testing.T) {
	w, alice, bob := friends(t)
	alice.update(func(tx *store.Tx) error { return tx.DeleteContact(bob.id.ACEID()) })
	bob.send(alice, "x")
	_ = w
	alice.pullOne(delivery.Dropped, fault.NotPermitted)
}

func TestRestart(t *testing.T) {
	_, alice, bob := friends(t)
	sent := bob.send(alice, "x")
	alice.open()
	bob.open()
	alice.pullOne(delivery.Delivered, "")
	alice.open()
	bob.pullOne(delivery.Delivered, "")
	if bob.entry(sent.MessageID).State != store.Delivered || len(alice.inbox()) != 1 {
		t.Error("state was lost")
	}
}

// Opening a packet deletes the seeds whose retention has ended (04#prekey).
func TestOpeningDeletesEndedSeeds(t *testing.T) {
	w, alice, bob := friends(t)
	alice.publish("open")
	w.now += wire.OfflineWindowSeconds
	count := func() (n int) {
		alice.view(func(tx *store.Tx) error {
			for _, peer := range []string{"", bob.id.ACEID()} {
				keys, err := tx.Prekeys(peer)
				if err != nil {
					return err
				}
				n += len(keys)
			}
			return nil
		})
		return n
	}
	if n := count(); n != 3 { // current, superseded, offered
		t.Fatalf("%d keys before", n)
	}
	alice.take(sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now))
	if got := alice.inbox(); len(got) != 1 || count() != 1 || alice.published() == "" {
		t.Errorf("received %v, %d keys left", got, count())
	}
}

// Two messages can be encrypted to one peer prekey: the second opens under the
// key that the first made the one in use.
func TestPrekeyInUseOpens(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	alice.pull()
	bob.pull()
	bob.send(alice, "y")
	first := w.last().Prekey
	bob.send(alice, "z")
	if w.last().Prekey != first || first == alice.published() {
		t.Fatal("the messages use no common peer prekey: the test does not look")
	}
	for _, r := range alice.pull() {
		if r.Outcome != delivery.Delivered {
			t.Errorf("result %+v", r)
		}
	}
}

// A claim that a clock running ahead left behind keeps nobody from an attempt.
func TestClaimFromTheFuture(t *testing.T) {
	w, alice, bob := friends(t)
	entry := bob.enqueue(alice, "x")
	entry.ClaimedUntil = w.now + 120
	bob.update(func(tx *store.Tx) error { return tx.SaveOutbox(entry) })
	if _, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now); !errors.Is(err, fault.LockBusy) || !strings.Contains(err.Error(), "in 120 s") {
		t.Errorf("a claimed message: %v", err)
	}
	entry.ClaimedUntil = w.now + 3600
	bob.update(func(tx *store.Tx) error { return tx.SaveOutbox(entry) })
	bob.attempt(entry.MessageID)
}
