package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// steps returns the events of a trace with what they carry.
func steps(t core.Trace) (list []string) {
	for _, e := range t.Events {
		step := e.Event
		if e.Attempt > 0 {
			step += fmt.Sprintf(" %d", e.Attempt)
		}
		if e.Count > 0 {
			step += fmt.Sprintf(" of %d", e.Count)
		}
		if e.Status > 0 {
			step += fmt.Sprintf(" HTTP %d", e.Status)
		}
		if e.Code != "" {
			step += " " + e.Code
		}
		if e.RemoteCode != "" {
			step += " (" + e.RemoteCode + ")"
		}
		list = append(list, step)
	}
	return list
}

func (a *agent) trace(id string) core.Trace {
	a.t.Helper()
	traces, err := a.Trace(a.t.Context(), id, "")
	if err != nil || len(traces) != 1 {
		a.t.Fatalf("traces %+v: %v", traces, err)
	}
	return traces[0]
}

func wantSteps(t *testing.T, got core.Trace, want ...string) {
	t.Helper()
	if all := strings.Join(steps(got), "\n"); all != strings.Join(want, "\n") {
		t.Errorf("%s: steps\n%s\nwant\n%s", got.State, all, strings.Join(want, "\n"))
	}
}

// One timeline at each end, over a real relay, which refuses an attempt while the
// sender is blocked.
func TestTraceOfAMessage(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, closed()), newAgent(t, r, open())
	befriend(alice, bob)
	out := alice.send(bob, "hello")
	first := alice.trace(out.MessageID)
	wantSteps(t, first, "queued", "attempt 1")
	if e := first.Events[1]; !first.Outgoing || first.Peer != bob.ACEID() || first.Type != profile.TextType || first.State != core.StateRelayed ||
		e.Relay != r.url || e.Prekey == "" || e.PeerPrekey || e.PermitExpiresAt == 0 || e.NextAttemptAt != out.NextAttemptAt {
		t.Errorf("trace %+v", first)
	}
	bob.pull()
	alice.pull()
	wantSteps(t, alice.trace(out.MessageID[:8]), "queued", "attempt 1", "delivered")
	received := bob.trace(out.MessageID)
	wantSteps(t, received, "signed", "received")
	if received.Outgoing || received.Peer != alice.ACEID() || received.State != "received" || received.Handled {
		t.Errorf("trace %+v", received)
	}
	if err := bob.MarkHandled(t.Context(), alice.ACEID(), out.MessageID); err != nil {
		t.Fatal(err)
	}
	if !bob.trace(out.MessageID).Handled {
		t.Error("the mark does not show")
	}

	if _, err := bob.Block(t.Context(), alice.ACEID()); err != nil {
		t.Fatal(err)
	}
	second, err := alice.Enqueue(t.Context(), core.OutMessage{To: bob.ACEID(), Body: profile.TextBody("again")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Attempt(t.Context(), second.MessageID); !errors.Is(err, fault.NotPermitted) {
		t.Fatal(err)
	}
	refused := alice.trace(second.MessageID)
	wantSteps(t, refused, "queued", "attempt 1 HTTP 403 not_permitted (not_permitted)")
	if !refused.Events[1].PeerPrekey {
		t.Error("the first attempt used the published prekey although a peer prekey is held")
	}
	if _, err := alice.Abandon(t.Context(), second.MessageID); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, alice.trace(second.MessageID), "queued", "attempt 1 HTTP 403 not_permitted (not_permitted)", "abandoned")
}

// inStore changes the store of an agent behind its back.
func (a *agent) inStore(change func(*store.Tx) error) {
	a.t.Helper()
	db, err := store.Open(a.t.Context(), a.config.StorePath, a.config.VaultKey)
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(a.t.Context(), change); err != nil {
		a.t.Fatal(err)
	}
}

// Attempts that are not kept are counted: those between the first and the last,
// and those of before they were kept.
func TestTraceCountsWhatIsNotKept(t *testing.T) {
	a := newAgent(t, newRelay(t), closed())
	content := []byte(`{"body":{"message":"x"},"schemaDigest":"` + strings.Repeat("0", 64) + `","type":"ace:text:1"}`)
	a.inStore(func(tx *store.Tx) error {
		entry := store.OutboxEntry{MessageID: "00000001-a", Peer: "ace:sha256:" + strings.Repeat("0", 64), Content: content, Type: "ace:text:1", CreatedAt: 1, State: store.Delivered, SettledAt: 50, Attempts: 20}
		if err := tx.AddOutbox(entry); err != nil {
			return err
		}
		entry.MessageID = "00000002-a"
		if err := tx.AddOutbox(entry); err != nil {
			return err
		}
		for n := range 18 {
			if err := tx.AddAttempt(store.Attempt{MessageID: "00000001-a", Number: n + 1, At: int64(n + 2)}); err != nil {
				return err
			}
		}
		return nil
	})
	want := []string{"queued", "attempt 1", "attempt 2", "attempt 3", "attempts_omitted of 2"}
	for n := 6; n <= 18; n++ {
		want = append(want, fmt.Sprintf("attempt %d", n))
	}
	wantSteps(t, a.trace("00000001"), append(want, "attempts_omitted of 2", "delivered")...)
	wantSteps(t, a.trace("00000002"), "queued", "attempts_omitted of 20", "delivered")
}

// Senders choose the IDs of their messages: what several have chosen is told
// apart, and what was not taken in is told of by the log alone.
func TestTraceOfSeveral(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	peer := func(digit string) string { return "ace:sha256:" + strings.Repeat(digit, 64) }
	const id, other = "00000001-0000-4000-8000-000000000001", "00000001-0000-4000-8000-000000000002"
	a.inStore(func(tx *store.Tx) error {
		for _, p := range []string{"1", "2"} {
			m := store.Message{MessageID: id, Peer: peer(p), Type: "ace:text:1", Body: []byte("{}"), SentAt: 9, ReceivedAt: 5} // its clock is ahead
			if err := tx.AddMessage(m); err != nil {
				return err
			}
		}
		mine := store.OutboxEntry{MessageID: id, Peer: peer("1"), Content: []byte("{}"), Type: "ace:text:1", CreatedAt: r.clock(), State: store.Pending}
		if err := tx.AddOutbox(mine); err != nil {
			return err
		}
		for _, row := range []store.Audit{
			{At: mine.CreatedAt, Event: "receipt.unknown_prekey", Code: "unknown_prekey", Peer: peer("1"), MessageID: id},
			{At: 6, Event: "message.duplicate_ignored", Peer: peer("1"), MessageID: id},
			{At: 7, Event: "message.retried", Code: "relay_unavailable", Peer: peer("1"), MessageID: id},
			{At: 8, Event: "message.dropped", Code: "invalid_signature", Peer: peer("3"), MessageID: id},
			{At: 9, Event: "message.rejected", Code: "invalid_body", Peer: peer("1"), MessageID: other},
		} {
			if err := tx.AddAudit(row); err != nil {
				return err
			}
		}
		return nil
	})
	traces, err := a.Trace(t.Context(), id, "")
	if err != nil || len(traces) != 4 {
		t.Fatalf("traces %+v: %v", traces, err)
	}
	wantSteps(t, traces[0], "queued", "receipt.unknown_prekey unknown_prekey")
	traces = traces[1:]
	wantSteps(t, traces[0], "signed", "received", "message.duplicate_ignored", "message.retried relay_unavailable")
	wantSteps(t, traces[1], "signed", "received")
	wantSteps(t, traces[2], "message.dropped invalid_signature")
	if traces[0].State != "received" || traces[2].State != "dropped" || traces[2].Peer != peer("3") || traces[2].Type != "" {
		t.Errorf("traces %+v", traces)
	}
	for _, sender := range []string{peer("1"), peer("2")} {
		one, err := a.Trace(t.Context(), id, sender)
		if err != nil || len(one) != 1 || one[0].Peer != sender || one[0].Outgoing {
			t.Errorf("of one sender %+v: %v", one, err)
		}
	}
	if got := a.trace(other).State; got != "rejected" {
		t.Errorf("state %q", got)
	}
	for _, c := range []struct{ events, want string }{
		{"message.withheld message.duplicate_ignored", "quarantined"},
		{"message.retried message.quarantined", "quarantined"},
		{"message.withheld quarantine.dropped", "dropped"},
		{"message.rejected receipt.unsent", "rejected"},
		{"message.duplicate_ignored", "duplicate_ignored"}, // the rest is gone from the log
	} {
		id := suite.NewMessageID()
		a.inStore(func(tx *store.Tx) (err error) {
			for i, event := range strings.Fields(c.events) {
				err = errors.Join(err, tx.AddAudit(store.Audit{At: int64(i), Event: audit.Event(event), Peer: peer("4"), MessageID: id}))
			}
			return err
		})
		if got := a.trace(id).State; got != c.want {
			t.Errorf("after %s: state %q", c.events, got)
		}
	}
	for name, typed := range map[string]string{"of two messages": "00000001", "of none": "ffffffff", "too short": "0000000", "no ID": "0000000x"} {
		if _, err := a.Trace(t.Context(), typed, ""); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A message that its owner denied, or did not decide about, was refused here: no
// receipt is told of.
func TestTraceOfHeldMessages(t *testing.T) {
	a := newAgent(t, newRelay(t), closed())
	entry := store.OutboxEntry{Peer: "ace:sha256:" + strings.Repeat("0", 64), Content: []byte("{}"), Type: "ace:text:1", CreatedAt: 5, HeldAt: 5, HeldUntil: 1 << 40}
	a.inStore(func(tx *store.Tx) error {
		for i, change := range []func(*store.OutboxEntry){
			func(e *store.OutboxEntry) { e.State = store.PendingApproval },
			func(e *store.OutboxEntry) { e.State, e.SettledAt, e.Reason = store.Rejected, 7, "denied_by_owner" },
			func(e *store.OutboxEntry) { e.State, e.SettledAt, e.Reason = store.Rejected, 8, "approval_expired" },
			func(e *store.OutboxEntry) { e.State, e.CreatedAt = store.Pending, 6 },
		} {
			one := entry
			one.MessageID = fmt.Sprintf("0000000%d-a", i)
			change(&one)
			if err := tx.AddOutbox(one); err != nil {
				return err
			}
		}
		return tx.AddAudit(store.Audit{At: 7, Event: "approval.denied", Peer: entry.Peer, MessageID: "00000001-a"})
	})
	wantSteps(t, a.trace("00000000"), "held")
	wantSteps(t, a.trace("00000001"), "held", "denied_by_owner")
	wantSteps(t, a.trace("00000002"), "held", "approval_expired")
	wantSteps(t, a.trace("00000003"), "held", "queued")
}
