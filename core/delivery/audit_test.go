package delivery_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// audits returns the rows of the audit log behind a row.
func (e *endpoint) audits(after int64) (rows []store.Audit) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		rows, err = tx.Audits(store.AuditFilter{After: after})
		return err
	})
	return rows
}

// lastAudit returns the Seq of the newest row.
func (e *endpoint) lastAudit() int64 {
	rows := e.audits(0)
	if len(rows) == 0 {
		return 0
	}
	return rows[len(rows)-1].Seq
}

// wantAudits compares the rows that an endpoint adds while do runs, all at the
// time of the world and about a peer.
func (e *endpoint) wantAudits(about *endpoint, do func(), want ...store.Audit) {
	e.t.Helper()
	last := e.lastAudit()
	do()
	got := e.audits(last)
	for i := range got {
		got[i].Seq = 0
	}
	for i := range want {
		want[i].At = e.world.now
		if about != nil {
			want[i].Peer = about.id.ACEID()
		}
	}
	if !slices.Equal(got, want) {
		e.t.Errorf("added\n%+v\nwant\n%+v", got, want)
	}
}

func row(event audit.Event) store.Audit { return store.Audit{Event: event} }

func permitRow(event audit.Event, expires int64) store.Audit {
	return store.Audit{Event: event, ExpiresAt: expires}
}

// Each decision about a peer, on both ends, from the first lookup on.
func TestDecisionsAreNoted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	full := w.now + wire.MaxPermitLifetime
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bob.wantAudits(alice, func() { bob.connect(alice) },
		store.Audit{Event: audit.PinAdopted, KELSeq: 1}, row(audit.ContactRequested), permitRow(audit.PermitIssued, full))
	alice.wantAudits(bob, func() { alice.pull() }, row(audit.ContactRequestHeld))
	alice.wantAudits(bob, func() { must(alice.node.RejectRequest(t.Context(), bob.id.ACEID(), w.now)) }, row(audit.ContactRequestRejected))
	bob.wantAudits(alice, func() { bob.pull() }, row(audit.ContactDeclined))

	w.now++
	full++
	bob.wantAudits(alice, func() { bob.connect(alice) }, row(audit.ContactRequested), permitRow(audit.PermitRenewed, full))
	alice.pull()
	alice.wantAudits(bob, func() {
		_, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now)
		must(err)
	}, store.Audit{Event: audit.PinAdopted, KELSeq: 1}, permitRow(audit.PermitReceived, full), row(audit.ContactRequestAccepted),
		row(audit.ContactAdmitted), permitRow(audit.PermitIssued, full))
	bob.wantAudits(alice, func() { bob.pull() }, permitRow(audit.PermitReceived, full), row(audit.ContactAdmitted))

	bob.wantAudits(alice, func() {
		_, err := bob.node.Block(t.Context(), alice.id.ACEID(), w.now)
		must(err)
	}, row(audit.ContactBlocked))
	w.now++
	bob.wantAudits(alice, func() {
		_, err := bob.node.Unblock(t.Context(), alice.id.ACEID(), w.now)
		must(err)
	}, row(audit.ContactUnblocked))
	alice.enqueue(bob, "waits")
	alice.wantAudits(bob, func() {
		_, err := alice.node.Forget(t.Context(), bob.id.ACEID(), w.now)
		must(err)
	}, store.Audit{Event: audit.ContactForgotten, Count: 1})
	alice.wantAudits(bob, func() {
		_, err := alice.node.Invite(t.Context(), bob.id.ACEID(), wire.Value{}, 60, w.now)
		must(err)
	}, row(audit.ContactAdmitted), permitRow(audit.PermitIssued, w.now+60))
	w.now += 90 * 86400
	alice.wantAudits(nil, func() {
		_, err := alice.node.Prune(t.Context(), w.now)
		must(err)
	}, store.Audit{Event: audit.StorePruned, Count: 1})
	if rows := alice.audits(0); len(rows) != 1 {
		t.Errorf("%d rows of 90 days ago are left", len(rows)-1)
	}
}

// A request that a relay refuses for good leaves the table as it was, and that is
// noted.
func TestRefusedRequestIsNoted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.refuse = fault.New(fault.NotPermitted, "no")
	bob.wantAudits(alice, func() {
		request := delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}
		if _, err := bob.node.SendRequest(t.Context(), request, w.now); !errors.Is(err, fault.NotPermitted) {
			t.Errorf("%v", err)
		}
	}, row(audit.ContactRequested), store.Audit{Event: audit.ContactRequestRefused, Code: "not_permitted"})
}

// A rule that accepts is a decision as well, and a peer that loses its state is
// admitted again by its next attempt.
func TestAcceptingByRuleIsNoted(t *testing.T) {
	w := newWorld()
	text := profile.OfficialByID(profile.TextID)
	alice, bob := w.newEndpoint(t, "open", map[string]string{text.ID: text.Digest}), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	full := w.now + wire.MaxPermitLifetime
	alice.wantAudits(bob, func() { alice.pull() },
		store.Audit{Event: audit.PinAdopted, KELSeq: 1}, permitRow(audit.PermitReceived, full), row(audit.ContactRequestAccepted),
		row(audit.ContactAdmitted), permitRow(audit.PermitIssued, full))
	bob.pull()

	sent := bob.send(alice, "x")
	w.queues[alice.id.ACEID()] = nil
	alice.update(func(tx *store.Tx) error {
		return errors.Join(tx.DeleteContact(bob.id.ACEID()), tx.DeletePermits(bob.id.ACEID()))
	})
	bob.attempt(sent.MessageID)
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Delivered, "") }, permitRow(audit.PermitReceived, full), row(audit.ContactAdmitted))
}

// What became of packets: a message that was taken in has no row, and every other
// outcome has one.
func TestOutcomesAreNoted(t *testing.T) {
	w, alice, bob := friends(t)
	about := func(event audit.Event, code fault.Code, id string) store.Audit {
		return store.Audit{Event: event, Code: string(code), MessageID: id}
	}
	sent := bob.send(alice, "x")
	genuine := w.last()
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Delivered, "") })
	w.redeliver(genuine)
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Duplicate, "") }, about(audit.MessageDuplicate, "", sent.MessageID))

	refused := sealTo(alice, bob.id, profile.TextType, members("no", "message"), w.now)
	alice.wantAudits(bob, func() { alice.take(refused) }, about(audit.MessageRejected, fault.InvalidBody, refused.MessageID))
	forged := *genuine
	forged.Timestamp++
	alice.wantAudits(bob, func() { alice.take(&forged) }, about(audit.MessageDropped, fault.InvalidSignature, sent.MessageID))

	w.takeQueue(bob)
	second := bob.send(alice, "y")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Retry, fault.RelayUnavailable) },
		about(audit.MessageRetried, fault.RelayUnavailable, second.MessageID))
	for range wire.MaxFetchAttempts - 2 {
		alice.pullOne(delivery.Retry, fault.RelayUnavailable)
	}
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Quarantined, fault.RelayUnavailable) },
		about(audit.MessageDuplicate, "", second.MessageID), about(audit.MessageQuarantined, fault.RelayUnavailable, second.MessageID))

	w.refuse = nil
	third := bob.send(alice, "z")
	w.refuse = fault.New(fault.NotPermitted, "no")
	alice.wantAudits(bob, func() { alice.pullOne(delivery.Delivered, "") }, about(audit.ReceiptUnsent, fault.NotPermitted, third.MessageID))
}

// Without a descriptor of the sender there is no receipt either.
func TestReceiptWithoutADescriptorIsNoted(t *testing.T) {
	w, alice, bob := friends(t)
	w.now += 86400
	w.lookup = fault.New(fault.UnknownPeer, "gone")
	packet := sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now)
	alice.wantAudits(bob, func() { alice.take(packet) },
		store.Audit{Event: audit.ReceiptUnsent, Code: "unknown_peer", MessageID: packet.MessageID})
}

// A new key of a peer: the pin, and the permit held that it makes void.
func TestPinChangesAreNoted(t *testing.T) {
	w, alice, bob := friends(t)
	full := w.now + wire.MaxPermitLifetime
	lookup := func() {
		t.Helper()
		if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
			t.Fatal(err)
		}
	}
	bob.wantAudits(alice, lookup)
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	alice.publish("open")
	bob.wantAudits(alice, lookup, store.Audit{Event: audit.PinExtended, KELSeq: 2}, permitRow(audit.PermitVoided, full))
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	alice.publish("open")
	bob.wantAudits(alice, lookup, store.Audit{Event: audit.PinExtended, KELSeq: 3}) // the permit was void before
}

func TestRecoveryOfAPeerIsNoted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	root, next, other := newKey(), newKey(), newKey()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), w.now)
	if err != nil {
		t.Fatal(err)
	}
	alice.root = root
	alice.delegate(state)
	alice.open()
	alice.publish("open")
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.now++
	recovered, err := alice.id.State().Recover(next, kel.Commitment(wire.SchemeMLDSA65, other.PublicKey()), w.now)
	if err != nil {
		t.Fatal(err)
	}
	alice.root = next
	alice.delegate(recovered)
	alice.open()
	alice.publish("open")
	bob.wantAudits(alice, func() {
		if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
			t.Error(err)
		}
	}, store.Audit{Event: audit.PinRecovered, KELSeq: alice.id.State().Seq()})
}

// A log that contradicts the pinned one changes nothing and is noted, wherever it
// comes from (01#pinning).
func TestForkIsNoted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	inception, err := kel.Verify(wire.NewArray(alice.id.State().Value().Items()[0]), w.now)
	if err != nil {
		t.Fatal(err)
	}
	thief := *alice
	thief.path += ".thief"
	alice.open()
	alice.publish("open")
	befriend(bob, alice)
	w.now++
	thief.delegate(inception)
	thief.open()
	thief.publish("open")
	for name, do := range map[string]func() error{
		"looked up": func() error {
			_, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now)
			return err
		},
		"card": func() error {
			_, err := bob.node.AdoptCard(t.Context(), alice.id.ACEID(), thief.card(descriptor.CardRecord{}, w.now), w.now)
			return err
		},
		"invitee": func() error {
			_, err := bob.node.Invite(t.Context(), alice.id.ACEID(), w.agents[alice.id.ACEID()], 60, w.now)
			return err
		},
	} {
		bob.wantAudits(alice, func() {
			if err := do(); !errors.Is(err, fault.KELConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}, store.Audit{Event: audit.PinConflict, Code: "kel_conflict"})
	}
}

// Of each attempt it is kept who was asked with what, and what came of it.
func TestAttemptsAreKept(t *testing.T) {
	w, alice, bob := friends(t)
	permit := w.now + wire.MaxPermitLifetime
	entry := bob.enqueue(alice, "x")
	first := alice.published()
	bob.attempt(entry.MessageID)
	w.now += 60
	for _, refusal := range []*fault.Error{
		{Code: fault.NotPermitted, Msg: "no", Status: 403, Remote: "not_permitted"},
		{Code: fault.RelayUnavailable, Msg: "later", Status: 429, Remote: "Come back\x1b[2J", RetryAfter: 500},
	} {
		w.refuse = refusal
		if _, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now); !errors.Is(err, refusal.Code) {
			t.Fatal(err)
		}
	}
	w.refuse = nil
	bob.update(func(tx *store.Tx) error { return tx.DeletePermits(alice.id.ACEID()) })
	if _, err := bob.node.Attempt(t.Context(), entry.MessageID, w.now); !errors.Is(err, fault.NotPermitted) {
		t.Fatal(err)
	}
	bob.view(func(tx *store.Tx) error {
		got, err := tx.Attempts(entry.MessageID)
		want := []store.Attempt{
			{Number: 1, At: start, Relay: relay, Prekey: first, PermitExpiresAt: permit, NextAttemptAt: start + 60},
			{Number: 2, At: w.now, Relay: relay, Status: 403, Code: "not_permitted", RemoteCode: "not_permitted", Prekey: first, PermitExpiresAt: permit, NextAttemptAt: w.now + 120},
			{Number: 3, At: w.now, Relay: relay, Status: 429, Code: "relay_unavailable", Prekey: first, PermitExpiresAt: permit, NextAttemptAt: w.now + 500},
			{Number: 4, At: w.now, Code: "not_permitted", NextAttemptAt: w.now + 480},
		}
		for i := range want {
			want[i].MessageID = entry.MessageID
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept\n%+v\nwant\n%+v", got, want)
		}
		return err
	})
}

// A receipt that only makes the next attempt use another key is noted: it ends
// nothing that would tell of it.
func TestUnknownPeerPrekeyIsNoted(t *testing.T) {
	_, alice, bob := friends(t)
	bob.send(alice, "x")
	alice.pull()
	bob.pull()
	sent := bob.send(alice, "y")
	alice.update(func(tx *store.Tx) error {
		kept, err := tx.PublicPrekeys(bob.id.ACEID())
		for _, k := range kept {
			err = errors.Join(err, tx.DeletePrekey(k.ID))
		}
		return err
	})
	alice.pullOne(delivery.Rejected, fault.UnknownPrekey)
	bob.wantAudits(alice, func() { bob.pull() },
		store.Audit{Event: audit.ReceiptUnknownPrekey, Code: "unknown_prekey", MessageID: sent.MessageID})
	if bob.entry(sent.MessageID).State != store.Pending {
		t.Error("the message has ended: the test does not look")
	}
}

// What the owner decides about messages under a policy, in both directions.
func TestApprovalsAreNoted(t *testing.T) {
	w, alice, bob := friends(t)
	bob.under(policy.Rule{Peer: alice.id.ACEID(), Do: policy.Ask})
	about := func(event audit.Event, id string) store.Audit { return store.Audit{Event: event, MessageID: id} }
	hold := func() (id string) {
		last := bob.lastAudit()
		id = bob.enqueue(alice, "x").MessageID
		if rows := bob.audits(last); len(rows) != 1 || rows[0].Event != audit.ApprovalHeld || rows[0].MessageID != id || rows[0].Peer != alice.id.ACEID() {
			t.Errorf("rows %+v", rows)
		}
		return id
	}
	granted, denied, abandoned, late := hold(), hold(), hold(), hold()
	bob.wantAudits(alice, func() { bob.approve(granted) }, about(audit.ApprovalGranted, granted))
	bob.wantAudits(alice, func() { bob.approve(granted) })
	bob.wantAudits(alice, func() {
		for range 2 {
			if _, err := bob.node.Deny(t.Context(), denied, w.now); err != nil {
				t.Error(err)
			}
		}
	}, about(audit.ApprovalDenied, denied))
	bob.wantAudits(alice, func() {
		if _, err := bob.node.Abandon(t.Context(), abandoned, w.now); err != nil {
			t.Error(err)
		}
	}, about(audit.ApprovalDenied, abandoned))
	bob.attempt(granted)
	w.now += 86400
	bob.wantAudits(alice, func() {
		if err := bob.node.ExpireDue(t.Context(), w.now); err != nil {
			t.Error(err)
		}
	}, about(audit.ApprovalExpired, late))

	alice.under(policy.Rule{Direction: policy.In, Peer: bob.id.ACEID(), Do: policy.Deny})
	bob.publish("")
	alice.publish("open")
	packet := sealTo(alice, bob.id, profile.TextType, textBody("y"), w.now)
	alice.wantAudits(bob, func() { alice.take(packet) }, about(audit.MessageWithheld, packet.MessageID))
	alice.wantAudits(bob, func() {
		if _, err := alice.node.Release(t.Context(), alice.withheld()[0].Number, w.now); err != nil {
			t.Error(err)
		}
	}, about(audit.QuarantineReleased, packet.MessageID))
}
