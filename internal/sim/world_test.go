package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/kel"
)

// world is one play of a plan.
type world struct {
	t           *testing.T
	ctx         context.Context
	dir         string
	plan        plan
	now         int64 // the true time; hosts and relays are off by their skew
	began       int64 // when this step did
	hosts       []*host
	relays      []*relay
	kels        *kel.Cache
	sent        *ledger
	step        int // the step that is played
	rand        *rand.Rand
	calm        bool                              // no faults any more
	blocks      bool                              // somebody has blocked another
	proofs      map[[2]string][]*admission.Permit // who sent whom what a recovery takes, by ACE ID
	parted      map[[2]int]bool
	late        []*call // requests that the network holds back
	receipts    []sentReceipt
	invitations []invitation
	packets     map[string][]passage // by message ID
	streams     []*stream            // that are open
	trace       []string
	broken      *violation
	counted     map[string]int
}

// violation is a rule that was broken.
type violation struct{ rule, cite, what string }

func (v *violation) String() string { return fmt.Sprintf("%q (%s): %s", v.rule, v.cite, v.what) }

// violate notes the first violation; the play ends with its step.
func (w *world) violate(rule, cite, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{rule, cite, fmt.Sprintf(format, args...)}
		w.note("BROKEN %s", w.broken)
	}
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8d  ", w.now-dawn)+fmt.Sprintf(format, args...))
}

// count notes that something has happened, so that the test can say that its
// worlds are worth something.
func (w *world) count(what string) { w.counted[what]++ }

// play runs a plan from its stage to its end. A test of its own takes what the
// source of chance leaves behind.
func play(t *testing.T, stages *stages, p plan) (w *world) {
	t.Helper()
	played := t.Run(strconv.FormatUint(p.seed, 10), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w = newWorld(t, p)
			defer w.close()
			stages.set(w)
			w.playAll()
		})
	})
	if !played {
		t.FailNow()
	}
	return w
}

func (w *world) playAll() {
	for n, s := range w.plan.steps {
		if w.broken != nil {
			return
		}
		if w.plan.plays(n) {
			w.step = n
			w.play(n, s)
		}
	}
	if w.broken == nil {
		w.step = len(w.plan.steps)
		w.guard(w.settle)
	}
}

func newWorld(t *testing.T, p plan) *world {
	w := &world{
		t: t, ctx: t.Context(), dir: scratch(t), plan: p, now: dawn, kels: kel.NewCache(64), sent: newLedger(),
		parted: map[[2]int]bool{}, proofs: map[[2]string][]*admission.Permit{}, packets: map[string][]passage{}, counted: map[string]int{},
	}
	for i := range shapes[p.shape].relays {
		w.relays = append(w.relays, &relay{w: w, n: i, dir: filepath.Join(w.dir, fmt.Sprintf("relay%d", i))})
	}
	return w
}

func (w *world) close() {
	w.endStreams(nil)
	for _, h := range w.hosts {
		h.close()
	}
	for _, r := range w.relays {
		r.stop()
	}
	remove(w.t, w.dir)
}

// play is one step: an action of a host, in the weather of the plan, and then a
// look at all rules.
func (w *world) play(n int, s step) {
	h := w.hosts[s.host]
	w.draw(s.seed)
	w.began = w.now
	for _, h := range w.hosts {
		h.raced = false
	}
	w.note("%d %s: %s", n, h.name, s.action.name)
	w.count(s.action.name)
	if !s.action.calm {
		h.expose(w.plan.weather)
	}
	w.guard(func() {
		s.action.do(w, h, w.hosts[s.peer])
		h.settleStep()
	})
}

// draw starts the chance of a step: of the scheduler, and of the keys, IDs and
// nonces that are drawn in it.
func (w *world) draw(seed uint64) {
	w.rand = rand.New(rand.NewPCG(seed, 1))
	cryptotest.SetGlobalRandom(w.t, seed)
}

// guard makes a panic a violation.
func (w *world) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			w.violate("no panic", "06#error-codes", "%v\n%s", p, debug.Stack())
		}
	}()
	f()
}

// chance reports whether something of this likelihood happens.
func (w *world) chance(p float64) bool { return p > 0 && w.rand.Float64() < p }

// other returns the host with an ACE ID, nil for none.
func (w *world) other(aceID string) *host {
	for _, h := range w.hosts {
		if h.id.ACEID() == aceID {
			return h
		}
	}
	return nil
}
