package core_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

// handled is an agent that has got messages for a handler.
func handled(t *testing.T, texts ...string) (r *relay, alice *agent, waiting []core.Waiting) {
	t.Helper()
	r = newRelay(t)
	alice = newAgent(t, r, open())
	bob := newAgent(t, r, closed())
	befriend(bob, alice)
	for _, text := range texts {
		bob.send(alice, text)
	}
	alice.pull()
	r.stand()
	return r, alice, alice.waiting(&core.HandlerQueue{})
}

func (a *agent) waiting(at *core.HandlerQueue) []core.Waiting {
	a.t.Helper()
	list, _, err := a.Waiting(a.t.Context(), at)
	if err != nil {
		a.t.Fatal(err)
	}
	return list
}

// begin begins an attempt that has to be due in so many seconds.
func (a *agent) begin(w core.Waiting, wait int64, attempt int) core.Message {
	a.t.Helper()
	m, h, later, ok, err := a.BeginHandling(a.t.Context(), w.From, w.MessageID)
	if err != nil || ok != (wait == 0) || later != wait || ok && h.Attempts != attempt {
		a.t.Fatalf("attempt %d: %+v, due in %d s, %v: %v", attempt, h, later, ok, err)
	}
	return m
}

func (a *agent) fail(w core.Waiting, most int) core.Handling {
	a.t.Helper()
	h, err := a.FailHandling(a.t.Context(), w.From, w.MessageID, core.HandlerFailure{Exit: 7, Reason: "exit status 7", Attempts: most})
	if err != nil {
		a.t.Fatal(err)
	}
	return h
}

// TestHandlingBacksOff: the delay doubles from a second to five minutes, and is
// there after a restart. A clock that is set back delays nothing for longer.
func TestHandlingBacksOff(t *testing.T) {
	r, alice, waiting := handled(t, "one")
	w := waiting[0]
	attempt := 0
	for _, delay := range []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		attempt++
		alice.begin(w, 0, attempt)
		h := alice.fail(w, 0)
		if h.NextAttemptAt != r.clock()+delay || h.LastExit != 7 || h.Failures != attempt || h.GivenUp || h.Running {
			t.Fatalf("failure %d: %+v, want a delay of %d s", attempt, h, delay)
		}
		alice.reopen(func(*core.Config) {})
		alice.begin(w, delay, 0)
		r.ahead.Add(delay)
	}
	alice.begin(w, 0, attempt+1)
	alice.fail(w, 0)
	r.ahead.Add(-3600)
	alice.begin(w, 0, attempt+2)
}

// TestHandlingCutOff: an attempt that its process did not survive counts, and the
// next one is due at once; so is one behind an attempt that was ended from
// outside. Neither is a failure of the message.
func TestHandlingCutOff(t *testing.T) {
	_, alice, waiting := handled(t, "one")
	w := waiting[0]
	if m := alice.begin(w, 0, 1); m.MessageID != w.MessageID || m.From != w.From {
		t.Errorf("message %+v", m)
	}
	alice.reopen(func(*core.Config) {})
	all, err := alice.Handlings(t.Context())
	if err != nil || len(all) != 1 || !all[0].Running || all[0].Attempts != 1 {
		t.Errorf("attempts %+v: %v", all, err)
	}
	alice.begin(w, 0, 2)
	if _, err := alice.InterruptHandling(t.Context(), w.From, w.MessageID); err != nil {
		t.Fatal(err)
	}
	alice.begin(w, 0, 3)
	if h := alice.fail(w, 2); h.Failures != 1 || h.GivenUp {
		t.Errorf("attempts that were cut off counted as failures: %+v", h)
	}
}

// TestHandlingEnds: by the mark, which somebody else may set while an attempt is
// under way, or after so many failures.
func TestHandlingEnds(t *testing.T) {
	_, alice, waiting := handled(t, "one", "two", "three")
	if len(waiting) != 3 {
		t.Fatalf("waiting %+v", waiting)
	}
	at := core.HandlerQueue{}
	alice.waiting(&at)
	if more := alice.waiting(&at); len(more) != 0 {
		t.Errorf("returned again: %+v", more)
	}

	one, two := waiting[0], waiting[1]
	alice.begin(one, 0, 1)
	if err := alice.MarkHandled(t.Context(), one.From, one.MessageID); err != nil {
		t.Fatal(err)
	}
	alice.fail(one, 0)
	alice.begin(two, 0, 1)
	if h := alice.fail(two, 1); !h.GivenUp {
		t.Errorf("not given up: %+v", h)
	}
	for _, w := range []core.Waiting{one, two} {
		if _, _, wait, ok, err := alice.BeginHandling(t.Context(), w.From, w.MessageID); ok || wait != 0 || err != nil {
			t.Errorf("an attempt after the end: %v, %d s, %v", ok, wait, err)
		}
	}
	if left := alice.waiting(&core.HandlerQueue{}); len(left) != 1 || left[0] != waiting[2] {
		t.Errorf("left %+v", left)
	}
	for i, w := range []core.Waiting{one, two} {
		if err := alice.UnmarkHandled(t.Context(), w.From, w.MessageID); err != nil {
			t.Fatal(err)
		}
		list, anew, err := alice.Waiting(t.Context(), &at)
		if err != nil || !anew || len(list) != 2+i {
			t.Errorf("after %d came back: %+v, anew %v: %v", i+1, list, anew, err)
		}
		alice.begin(w, 0, 1)
	}
	if err := alice.UnmarkHandled(t.Context(), one.From, "00000000-0000-4000-8000-000000000000"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("an unknown message: %v", err)
	}
	if n, err := alice.MarkAllHandled(t.Context(), ""); n != 3 || err != nil {
		t.Errorf("marked %d: %v", n, err)
	}
}

// TestLockHandlers: one process hands messages to handlers, and the next is told
// which.
func TestLockHandlers(t *testing.T) {
	r := newRelay(t)
	alice := newAgent(t, r, open())
	release, err := alice.LockHandlers()
	if err != nil {
		t.Fatal(err)
	}
	var f *fault.Error
	if _, err := alice.LockHandlers(); !errors.As(err, &f) || f.Code != fault.LockBusy || f.Holder == nil {
		t.Errorf("a second one: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = alice.LockHandlers(); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// TestHandlingDamaged: a message that does not open is given up before anything
// is run for it, so that it holds nothing back, and can be marked by hand.
func TestHandlingDamaged(t *testing.T) {
	_, alice, waiting := handled(t, "one", "two")
	alice.sql("UPDATE message SET sealed = (SELECT sealed FROM message ORDER BY seq DESC LIMIT 1) WHERE seq = (SELECT min(seq) FROM message)")
	w := waiting[0]
	if _, _, wait, ok, err := alice.BeginHandling(t.Context(), w.From, w.MessageID); ok || wait != 0 || err != nil {
		t.Errorf("an attempt at it: %v, %d s, %v", ok, wait, err)
	}
	if left := alice.waiting(&core.HandlerQueue{}); len(left) != 1 || left[0] != waiting[1] {
		t.Errorf("waiting %+v", left)
	}
	all, err := alice.Handlings(t.Context())
	if err != nil || len(all) != 1 || !all[0].GivenUp || all[0].Attempts != 0 {
		t.Errorf("attempts %+v: %v", all, err)
	}
	m, err := alice.FindMessage(t.Context(), w.MessageID[:8], "")
	if err != nil || !m.Damaged || m.MessageID != w.MessageID {
		t.Errorf("found %+v: %v", m, err)
	}
	if err := alice.MarkHandled(t.Context(), m.From, m.MessageID); err != nil {
		t.Error(err)
	}
}
