package kel_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// A drawing is a log written as its events in order:
//
//	icp -> dlg -> rot -> dlg
//
// An event with primes is another event at the same place: icp -> dlg' forks
// from icp -> dlg at seq 1. An event with a star is the same event signed again.
// Two drawings that begin alike begin with the very same log.
//
// A pen draws the logs of one owner, who has every key.
type pen struct {
	t     testing.TB
	drawn map[string]*kel.State
	keys  map[string]*suite.SigningKey
}

const (
	dayOne = 1_758_140_800 // ts of icp
	later  = dayOne + 1_000_000
)

func newPen(t testing.TB) *pen {
	return &pen{t: t, drawn: map[string]*kel.State{}, keys: map[string]*suite.SigningKey{}}
}

// key returns the key of that name, always the same.
func (p *pen) key(name string) *suite.SigningKey {
	p.t.Helper()
	if k, ok := p.keys[name]; ok {
		return k
	}
	seed, err := suite.SeedFromBytes([]byte((name + strings.Repeat(".", suite.SeedBytes))[:suite.SeedBytes]))
	must(p.t, err)
	p.keys[name] = suite.NewSigningKey(seed)
	return p.keys[name]
}

// root returns the root of epoch n: 0 for icp, 1 after the first rot.
func (p *pen) root(n int) *suite.SigningKey { return p.key("root " + strings.Repeat("i", n)) }

func (p *pen) commitment(k *suite.SigningKey) string {
	return kel.Commitment(wire.SchemeMLDSA65, k.PublicKey())
}

// draw returns the log of a drawing. Event n has ts dayOne + 10n, a second
// later for each prime.
func (p *pen) draw(drawing string) *kel.State {
	p.t.Helper()
	var s *kel.State
	path, epoch := "", -1
	for word := range strings.SplitSeq(drawing, "->") {
		word = strings.TrimSpace(word)
		path += " -> " + word
		if !strings.HasPrefix(word, kel.Delegation) {
			epoch++
		}
		if p.drawn[path] == nil {
			p.drawn[path] = p.event(s, word, epoch)
		}
		s = p.drawn[path]
	}
	return s
}

func (p *pen) event(s *kel.State, word string, epoch int) *kel.State {
	p.t.Helper()
	name := strings.TrimRight(word, "'*")
	primes := strings.Count(word, "'")
	ts := int64(dayOne + primes)
	if s != nil {
		ts += 10 * (s.Seq() + 1)
	}
	var err error
	switch name {
	case kel.Inception:
		s, err = kel.Incept(p.root(epoch), p.commitment(p.root(epoch+1)), ts)
	case kel.Rotation:
		s, err = s.Rotate(p.root(epoch), p.commitment(p.root(epoch+1)), ts)
	case kel.Delegation:
		s, err = s.Delegate(p.root(epoch), p.signing(primes).PublicKey(), ts, 0)
	default:
		p.t.Fatalf("no event is drawn as %q", word)
	}
	must(p.t, err)
	return s
}

// signing returns the signing key that a dlg with that many primes delegates.
func (p *pen) signing(primes int) *suite.SigningKey {
	return p.key("signing " + strings.Repeat("i", primes))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != code {
		t.Fatalf("got %q (%v), want %q", got, err, code)
	}
}

func TestDrawing(t *testing.T) {
	p := newPen(t)
	plain, again, other := p.draw("icp -> dlg"), p.draw("icp -> dlg*"), p.draw("icp -> dlg'")
	if plain != p.draw("icp -> dlg") {
		t.Error("the same drawing is another log")
	}
	if plain.LastHash() != again.LastHash() || plain.Digest() == again.Digest() {
		t.Error("a star does not stand for the same event signed again")
	}
	if plain.LastHash() == other.LastHash() || plain.ACEID() != other.ACEID() {
		t.Error("a prime does not stand for another event of the same identity")
	}
}

func TestReconcile(t *testing.T) {
	const conflict = kel.Outcome("kel_conflict")
	p := newPen(t)
	for _, c := range []struct {
		pin, candidate string
		want           kel.Outcome
	}{
		{"", "icp", kel.Adopted},
		{"", "icp -> dlg -> rot", kel.Adopted},

		{"icp -> dlg", "icp -> dlg -> dlg", kel.Extended},
		{"icp -> dlg", "icp -> dlg -> rot -> dlg", kel.Extended},
		{"icp", "icp -> dlg -> rot -> dlg", kel.Extended},
		{"icp -> dlg", "icp -> dlg* -> dlg", kel.Extended},

		{"icp -> dlg", "icp -> dlg", kel.Unchanged},
		{"icp -> dlg", "icp -> dlg*", kel.Unchanged},
		{"icp -> dlg", "icp", kel.Unchanged},
		{"icp -> dlg -> rot -> dlg", "icp -> dlg", kel.Unchanged},

		{"icp -> dlg", "icp -> rot", kel.Recovered},
		{"icp -> dlg -> dlg -> dlg", "icp -> rot -> dlg", kel.Recovered},
		{"icp -> dlg -> dlg", "icp -> dlg -> rot -> dlg", kel.Recovered},
		{"icp -> dlg -> rot -> dlg", "icp -> dlg -> rot -> rot", kel.Recovered},
		{"icp -> dlg", "icp -> rot -> rot", kel.Recovered},

		{"icp -> dlg", "icp -> dlg'", conflict},
		{"icp -> dlg", "icp -> dlg' -> rot", conflict},
		{"icp -> dlg -> dlg", "icp -> dlg -> dlg' -> dlg", conflict},
		{"icp -> rot", "icp -> rot'", conflict},
		{"icp -> rot -> dlg", "icp -> rot' -> dlg", conflict},
		{"icp -> rot", "icp -> dlg", conflict},
		{"icp -> rot", "icp -> dlg -> rot", conflict},
		{"icp -> dlg -> rot", "icp -> rot", conflict},
		{"icp -> dlg -> dlg -> rot -> dlg", "icp -> dlg -> rot", conflict},
		{"icp -> dlg", "icp' -> dlg", conflict},
	} {
		t.Run(c.pin+" | "+c.candidate, func(t *testing.T) {
			p.t = t
			var pin *kel.State
			if c.pin != "" {
				pin = p.draw(c.pin)
			}
			candidate := p.draw(c.candidate)
			got, kept, err := kel.Reconcile(pin, candidate)
			if c.want == conflict {
				wantCode(t, err, fault.KELConflict)
				return
			}
			must(t, err)
			if got != c.want {
				t.Fatalf("outcome %q, want %q", got, c.want)
			}
			if want := map[bool]*kel.State{true: pin, false: candidate}[got == kel.Unchanged]; kept != want {
				t.Error("the state kept is not the one that the outcome says")
			}
		})
	}
}

// TestRecover draws what the owner of the next root does after a theft of the
// root: whatever the thief appended, peers adopt the recovery.
func TestRecover(t *testing.T) {
	p := newPen(t)
	for _, c := range []struct {
		own, stolen string
		fork        int64
	}{
		{"icp", "icp -> dlg'", 1},
		{"icp -> dlg", "icp -> dlg -> dlg' -> dlg''", 1},
		{"icp -> dlg -> dlg", "icp -> dlg'", 1},
		{"icp -> dlg -> rot -> dlg", "icp -> dlg -> rot -> dlg -> dlg'", 3},
		{"icp -> dlg -> rot", "icp -> dlg -> rot -> dlg'", 3},
	} {
		t.Run(c.own+" | "+c.stolen, func(t *testing.T) {
			p.t = t
			own, stolen := p.draw(c.own), p.draw(c.stolen)
			epoch := strings.Count(c.own, kel.Rotation)
			got, err := own.Recover(p.root(epoch+1), p.commitment(p.root(epoch+2)), later)
			must(t, err)
			if got.Seq() != c.fork || got.EpochStart() != c.fork || got.Delegated() != nil || got.ACEID() != own.ACEID() {
				t.Fatalf("recovered to seq %d, epoch %d, delegation %v", got.Seq(), got.EpochStart(), got.Delegated())
			}
			outcome, _, err := kel.Reconcile(stolen, got)
			must(t, err)
			if outcome != kel.Recovered {
				t.Errorf("the thief's log against the recovery: %q", outcome)
			}
			_, _, err = kel.Reconcile(got, stolen)
			wantCode(t, err, fault.KELConflict)
		})
	}
}

func TestState(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg -> rot -> dlg'")
	events := s.Events()
	if len(events) != 4 || s.Seq() != 3 || s.EpochStart() != 2 || s.LastTS() != dayOne+31 {
		t.Fatalf("%d events, seq %d, epoch %d, ts %d", len(events), s.Seq(), s.EpochStart(), s.LastTS())
	}
	for i, e := range events[1:] {
		if e.Prev != events[i].Hash || e.Seq != int64(i+1) {
			t.Errorf("event %d does not follow event %d", i+1, i)
		}
	}
	if s.ACEID() != "ace:sha256:"+events[0].Hash || s.LastHash() != events[3].Hash {
		t.Error("the names of the log are not the hashes of its ends")
	}
	if string(s.Root()) != string(p.root(1).PublicKey()) || s.Next() != p.commitment(p.root(2)) {
		t.Error("root or next is not that of the last rot")
	}
	want := kel.Delegated{Seq: 3, TS: dayOne + 31, Key: p.signing(1).PublicKey()}
	if d := s.Delegated(); d.Seq != want.Seq || d.TS != want.TS || string(d.Key) != string(want.Key) || d.NotAfter != 0 {
		t.Errorf("delegation %d at %d until %d", d.Seq, d.TS, d.NotAfter)
	}
	if string(s.Raw()) != string(s.Value().Canonical()) || s.Digest() != suite.Hex256(s.Raw()) {
		t.Error("raw, value and digest do not agree")
	}
}

// TestUsable is rule 5 of 01#verifier-rules at its borders.
func TestUsable(t *testing.T) {
	p := newPen(t)
	if p.draw("icp").Usable(later) || p.draw("icp -> dlg -> rot").Usable(later) {
		t.Error("usable without a delegation")
	}
	if !p.draw("icp -> dlg").Usable(wire.MaxInt) {
		t.Error("a delegation without notAfter ends")
	}
	s, err := p.draw("icp").Delegate(p.root(0), p.signing(0).PublicKey(), dayOne, later)
	must(t, err)
	if !s.Usable(later-1) || s.Usable(later) {
		t.Error("notAfter is not the first moment without the key")
	}
}
