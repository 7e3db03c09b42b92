package kel_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestBuilderRefusals covers what a signer has to refuse
// (01#rotation-and-recovery) and arguments that no verifier would accept.
func TestBuilderRefusals(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg -> rot -> dlg")
	now := s.LastTS()
	fresh := p.commitment(p.key("fresh"))
	newKey := p.key("new signing").PublicKey()
	incept := func(next string, ts int64) error {
		_, err := kel.Incept(p.root(0), next, ts)
		return err
	}
	delegate := func(root *suite.SigningKey, key []byte, ts, notAfter int64) error {
		_, err := s.Delegate(root, key, ts, notAfter)
		return err
	}
	rotate := func(root *suite.SigningKey, next string, ts int64) error {
		_, err := s.Rotate(root, next, ts)
		return err
	}
	recov := func(root *suite.SigningKey, next string, ts int64) error {
		_, err := s.Recover(root, next, ts)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want fault.Code
	}{
		{"incept", incept(fresh, now), ""},
		{"incept: next is the root", incept(p.commitment(p.root(0)), now), fault.InvalidArgument},
		{"incept: next is no digest", incept(strings.ToUpper(fresh), now), fault.InvalidArgument},
		{"incept: negative ts", incept(fresh, -1), fault.InvalidArgument},
		{"incept: ts too great", incept(fresh, wire.MaxInt+1), fault.InvalidArgument},

		{"delegate", delegate(p.root(1), newKey, now, 0), ""},
		{"delegate: a key delegated before", delegate(p.root(1), p.signing(0).PublicKey(), now, 0), ""},
		{"delegate: a former root", delegate(p.root(1), p.root(0).PublicKey(), now, 0), ""},
		{"delegate: the current root", delegate(p.root(1), p.root(1).PublicKey(), now, 0), fault.InvalidArgument},
		{"delegate: the next root", delegate(p.root(1), p.root(2).PublicKey(), now, 0), fault.InvalidArgument},
		{"delegate: a short key", delegate(p.root(1), newKey[1:], now, 0), fault.InvalidArgument},
		{"delegate: ts before the last", delegate(p.root(1), newKey, now-1, 0), fault.InvalidArgument},
		{"delegate: the longest life", delegate(p.root(1), newKey, now, now+wire.MaxSigningKeyLifetime), ""},
		{"delegate: too long a life", delegate(p.root(1), newKey, now, now+wire.MaxSigningKeyLifetime+1), fault.InvalidArgument},
		{"delegate: no life", delegate(p.root(1), newKey, now, now), fault.InvalidArgument},
		{"delegate: negative notAfter", delegate(p.root(1), newKey, now, -1), fault.InvalidArgument},
		{"delegate: notAfter too great", delegate(p.root(1), newKey, wire.MaxInt, wire.MaxInt+1), fault.InvalidArgument},
		{"delegate: signed by the former root", delegate(p.root(0), newKey, now, 0), fault.IdentityUnavailable},
		{"delegate: signed by the next root", delegate(p.root(2), newKey, now, 0), fault.IdentityUnavailable},

		{"rotate", rotate(p.root(2), fresh, now), ""},
		{"rotate: next is the new root", rotate(p.root(2), p.commitment(p.root(2)), now), fault.InvalidArgument},
		{"rotate: next is the current root", rotate(p.root(2), p.commitment(p.root(1)), now), fault.InvalidArgument},
		{"rotate: next is a former root", rotate(p.root(2), p.commitment(p.root(0)), now), fault.InvalidArgument},
		{"rotate: next is a signing key", rotate(p.root(2), p.commitment(p.signing(0)), now), fault.InvalidArgument},
		{"rotate: next is no digest", rotate(p.root(2), "", now), fault.InvalidArgument},
		{"rotate: ts before the last", rotate(p.root(2), fresh, now-1), fault.InvalidArgument},
		{"rotate: not the committed root", rotate(p.root(3), fresh, now), fault.IdentityUnavailable},
		{"rotate: the current root", rotate(p.root(1), fresh, now), fault.IdentityUnavailable},

		{"recover", recov(p.root(2), fresh, now), ""},
		{"recover: next is a dropped signing key", recov(p.root(2), p.commitment(p.signing(0)), now), fault.InvalidArgument},
		{"recover: not the committed root", recov(p.root(1), fresh, now), fault.IdentityUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) { wantCode(t, c.err, c.want) })
	}
}

// TestDroppedKeyStaysRevealed: a recovery drops a dlg, yet its key is known to
// whoever saw the log and cannot become a root.
func TestDroppedKeyStaysRevealed(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg'")
	_, err := s.Recover(p.root(1), p.commitment(p.signing(1)), later)
	wantCode(t, err, fault.InvalidArgument)
}

func TestDestroyedRootCannotSign(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp")
	p.root(0).Destroy()
	_, err := s.Delegate(p.root(0), p.signing(0).PublicKey(), later, 0)
	wantCode(t, err, fault.IdentityUnavailable)
}

// TestBuildersLeaveTheirLogAlone: two events appended to one log must not
// write into each other.
func TestBuildersLeaveTheirLogAlone(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg -> dlg")
	before := s.Digest()
	a, b := p.draw("icp -> dlg -> dlg -> dlg'"), p.draw("icp -> dlg -> dlg -> rot")
	if s.Digest() != before || string(s.Raw()) != string(s.Value().Canonical()) {
		t.Error("appending changed the log")
	}
	for _, log := range []*kel.State{a, b} {
		again, err := kel.Verify(log.Value(), later)
		must(t, err)
		if again.Digest() != log.Digest() {
			t.Error("the log built is not the log verified")
		}
	}
}

// TestBudget walks a log to the end of its room. A stolen key has to be
// replaceable up to then: the last two events are kept for a rot and its dlg.
func TestBudget(t *testing.T) {
	p := newPen(t)
	newKey := p.key("new signing").PublicKey()
	fresh := p.commitment(p.root(2))

	room := p.draw("icp -> dlg").Budget().Appends()
	if room < 100 || room >= wire.MaxKELEvents {
		t.Fatalf("room for %d events", room)
	}
	log := p.delegations(room + 1)
	s := verified(p, log)
	for s.Budget().Appends() < 3 {
		log = log[:len(log)-1]
		s = verified(p, log)
	}
	if got := s.Budget().Appends(); got != 3 {
		t.Fatalf("room for %d events, want 3", got)
	}
	last, err := s.Delegate(p.root(0), newKey, later, 0)
	must(t, err)
	if got := last.Budget().Appends(); got != 2 {
		t.Fatalf("room for %d events after the last delegation, want 2", got)
	}

	_, err = last.Delegate(p.root(0), newKey, later, 0)
	wantCode(t, err, fault.InvalidArgument)
	rotated, err := last.Rotate(p.root(1), fresh, later)
	must(t, err)
	full, err := rotated.Delegate(p.root(1), newKey, later, later+1)
	must(t, err)
	_, err = full.Delegate(p.root(1), newKey, later, 0)
	wantCode(t, err, fault.InvalidArgument)
	_, err = full.Rotate(p.root(2), p.commitment(p.root(3)), later)
	wantCode(t, err, fault.InvalidArgument)

	// A recovery drops the epoch's delegations, here all but the rot.
	recovered, err := last.Recover(p.root(1), fresh, later)
	must(t, err)
	if recovered.Seq() != 1 {
		t.Errorf("recovered to seq %d, want 1", recovered.Seq())
	}
	if b := full.Budget(); b.Bytes < 0 || b.Events < 0 {
		t.Errorf("the full log is over its budget: %+v", b)
	}
}

// TestBudgetOfAForeignLog: a log built past the budget elsewhere can still be
// recovered, though not extended.
func TestBudgetOfAForeignLog(t *testing.T) {
	p := newPen(t)
	s := verified(p, p.delegations(wire.MaxKELEvents-1))
	if b := s.Budget(); b.Events != 0 || b.Bytes >= 0 || b.Appends() != 0 {
		t.Errorf("budget %+v, room for %d events", b, b.Appends())
	}
	_, err := s.Rotate(p.root(1), p.commitment(p.root(2)), later)
	wantCode(t, err, fault.InvalidArgument)
	_, err = s.Recover(p.root(1), p.commitment(p.root(2)), later)
	must(t, err)
}
