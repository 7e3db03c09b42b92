package admission_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// uncached is what a cache has to agree with.
func uncached(raw []byte, state *kel.State, issuer, subject string, now int64) error {
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return fault.Wrap(fault.InvalidAuthorization, err)
	}
	_, err = admission.VerifyPermit(v, state, issuer, subject, now)
	return err
}

func TestPermitCacheHit(t *testing.T) {
	issuer := newAgent(t)
	raw := issue(t, issuer, 1000).Raw()
	c := admission.NewPermitCache(4)
	verify := func() {
		if err := c.Verify(raw, issuer.State(), issuer.ACEID(), subject, now); err != nil {
			t.Fatal(err)
		}
	}
	verify()
	// A verification takes dozens of allocations.
	if n := testing.AllocsPerRun(10, verify); n != 0 {
		t.Errorf("the second time takes %v allocations: no hit", n)
	}
}

// TestPermitCacheChecksAgain: of a permit that is remembered only the signature
// is taken for granted (05#delivery-permits, 01#operational-signatures).
func TestPermitCacheChecksAgain(t *testing.T) {
	issuer, another := newAgent(t), newAgent(t)
	long := issue(t, issuer, wire.MaxPermitLifetime).Raw()
	short := issue(t, issuer, 1000).Raw()
	c := admission.NewPermitCache(4)
	for _, raw := range [][]byte{long, short} {
		wantCode(t, "first", c.Verify(raw, issuer.State(), issuer.ACEID(), subject, now), "")
	}
	for _, w := range []struct {
		name            string
		raw             []byte
		state           *kel.State
		issuer, subject string
		now             int64
		code            fault.Code
	}{
		{"again", short, issuer.State(), issuer.ACEID(), subject, now, ""},
		{"clock behind, at the bound", short, issuer.State(), issuer.ACEID(), subject, now - 300, ""},
		{"clock too far behind", short, issuer.State(), issuer.ACEID(), subject, now - 301, fault.InvalidAuthorization},
		{"last second", short, issuer.State(), issuer.ACEID(), subject, now + 999, ""},
		{"expired", short, issuer.State(), issuer.ACEID(), subject, now + 1000, fault.InvalidAuthorization},
		{"another subject", short, issuer.State(), issuer.ACEID(), another.ACEID(), now, fault.InvalidAuthorization},
		{"another issuer", short, issuer.State(), another.ACEID(), subject, now, fault.InvalidAuthorization},
		{"log of another", short, another.State(), another.ACEID(), subject, now, fault.InvalidAuthorization},
		{"broken clock", short, issuer.State(), issuer.ACEID(), subject, -1, fault.InvalidArgument},
		{"delegation about to end", long, issuer.State(), issuer.ACEID(), subject, now + 86399, ""},
		{"delegation ended", long, issuer.State(), issuer.ACEID(), subject, now + 86400, fault.StalePeerBinding},
	} {
		wantCode(t, w.name, c.Verify(w.raw, w.state, w.issuer, w.subject, w.now), w.code)
	}
}

// TestPermitCacheEndsWithItsKey: a new delegation voids every permit
// (05#delivery-permits), also one that was remembered before.
func TestPermitCacheEndsWithItsKey(t *testing.T) {
	issuer := newAgent(t)
	raw := issue(t, issuer, 1000).Raw()
	c := admission.NewPermitCache(4)
	wantCode(t, "first", c.Verify(raw, issuer.State(), issuer.ACEID(), subject, now), "")
	later, err := issuer.State().Delegate(issuer.root, newKey().PublicKey(), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c.Holds(raw, later) {
		t.Error("remembered under a log that it never verified under")
	}
	wantCode(t, "superseded", c.Verify(raw, later, issuer.ACEID(), subject, now), fault.StalePeerBinding)
	if c.Holds(raw, later) || c.Len() != 1 {
		t.Error("a refusal was remembered")
	}
}

func TestPermitCacheBound(t *testing.T) {
	issuer := newAgent(t)
	permits := make([][]byte, 4)
	for i := range permits {
		permits[i] = issue(t, issuer, 1000+int64(i)).Raw()
	}
	c := admission.NewPermitCache(3)
	verify := func(i int) {
		wantCode(t, "permit", c.Verify(permits[i], issuer.State(), issuer.ACEID(), subject, now), "")
	}
	for _, i := range []int{0, 1, 2, 0, 3} {
		verify(i)
	}
	for i, want := range []bool{true, false, true, true} {
		if c.Holds(permits[i], issuer.State()) != want {
			t.Errorf("permit %d remembered: %t", i, !want)
		}
	}
	if c.Len() != 3 {
		t.Errorf("%d permits in a cache of 3", c.Len())
	}
	for _, none := range []*admission.PermitCache{nil, admission.NewPermitCache(0)} {
		for range 2 {
			wantCode(t, "no cache", none.Verify(permits[0], issuer.State(), issuer.ACEID(), subject, now), "")
		}
		wantCode(t, "no cache", none.Verify(permits[0], issuer.State(), issuer.ACEID(), subject, now+1000), fault.InvalidAuthorization)
	}
}

// TestPermitCacheTakesGoodOnesOnly: nothing that costs no signature of an issuer
// takes a place.
func TestPermitCacheTakesGoodOnesOnly(t *testing.T) {
	issuer := newAgent(t)
	p := issue(t, issuer, 1000)
	spaced := bytes.Replace(p.Raw(), []byte(`,"`), []byte(` ,"`), 1)
	c := admission.NewPermitCache(3)
	for _, w := range []struct {
		name string
		raw  []byte
		now  int64
		code fault.Code
	}{
		{"longer life than signed", p.Value().With("expiresAt", wire.NewInt(now+1001)).Canonical(), now, fault.InvalidAuthorization},
		{"expired", p.Raw(), now + 1000, fault.InvalidAuthorization},
		{"not canonical", spaced, now, ""},
		{"no JSON", []byte("{"), now, fault.InvalidAuthorization},
		{"nothing", nil, now, fault.InvalidAuthorization},
		{"too deep", bytes.Repeat([]byte("["), 1<<16), now, fault.InvalidAuthorization},
	} {
		for range 2 {
			wantCode(t, w.name, c.Verify(w.raw, issuer.State(), issuer.ACEID(), subject, w.now), w.code)
		}
		if c.Len() != 0 {
			t.Fatalf("%s: was remembered", w.name)
		}
	}
	// A signature that holds is remembered also when the key ends before the permit.
	long := issue(t, issuer, wire.MaxPermitLifetime)
	wantCode(t, "ended", c.Verify(long.Raw(), issuer.State(), issuer.ACEID(), subject, now+86400), fault.StalePeerBinding)
	if !c.Holds(long.Raw(), issuer.State()) {
		t.Error("a verified signature was not remembered")
	}
}

// world is permits, logs, names and clock readings to combine at random.
type world struct {
	permits [][]byte
	states  []*kel.State
	names   []string
	clocks  []int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{names: []string{subject}, clocks: []int64{-1, 0, wire.MaxInt, wire.MaxInt + 1}}
	for range 2 {
		a := newAgent(t)
		later, err := a.State().Delegate(a.root, newKey().PublicKey(), now, now+500)
		if err != nil {
			t.Fatal(err)
		}
		// The same key again, under another seq.
		back, err := later.Delegate(a.root, a.signing.PublicKey(), now, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.states = append(w.states, a.State(), later, back)
		w.names = append(w.names, a.ACEID())
		for _, lifetime := range []int64{500, 1000, wire.MaxPermitLifetime} {
			p := issue(t, a, lifetime)
			again, err := admission.IssuePermit(kel.NewIdentity(back, a.signing), subject, now, lifetime)
			if err != nil {
				t.Fatal(err)
			}
			forged := bytes.Clone(p.Raw())
			forged[len(forged)/2] ^= 1
			w.permits = append(w.permits, p.Raw(), again.Raw(), forged, append([]byte(" "), p.Raw()...))
		}
	}
	for _, edge := range []int64{0, -300, 500, 1000, 86400, wire.MaxPermitLifetime} {
		w.clocks = append(w.clocks, now+edge-1, now+edge, now+edge+1)
	}
	return w
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// TestPermitCacheAgrees: whatever came before, a cache answers as VerifyPermit.
func TestPermitCacheAgrees(t *testing.T) {
	w := newWorld(t)
	caches := []*admission.PermitCache{admission.NewPermitCache(3), admission.NewPermitCache(100)}
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 3000 {
		raw, state, now := pick(r, w.permits), pick(r, w.states), pick(r, w.clocks)
		issuer, to := state.ACEID(), subject
		if r.IntN(8) == 0 {
			issuer, to = pick(r, w.names), pick(r, w.names)
		}
		want := uncached(raw, state, issuer, to, now)
		if want == nil {
			accepted++
		}
		for _, c := range caches {
			if got := c.Verify(raw, state, issuer, to, now); fault.CodeOf(got) != fault.CodeOf(want) || (got == nil) != (want == nil) {
				t.Fatalf("%s\nunder seq %d at %d: %v, without a cache %v", raw, state.Seq(), now, got, want)
			}
		}
	}
	if accepted < 100 || caches[1].Len() == 0 || caches[0].Len() != 3 {
		t.Errorf("%d accepted, %d and %d remembered: the test compares little", accepted, caches[0].Len(), caches[1].Len())
	}
}

// TestPermitCacheOnce: a permit that several verify at a time takes one place.
func TestPermitCacheOnce(t *testing.T) {
	issuer := newAgent(t)
	raw := issue(t, issuer, 1000).Raw()
	for range 20 {
		c := admission.NewPermitCache(10)
		start := make(chan struct{})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				<-start
				wantCode(t, "together", c.Verify(raw, issuer.State(), issuer.ACEID(), subject, now), "")
			})
		}
		close(start)
		group.Wait()
		if c.Len() != 1 {
			t.Fatalf("one permit takes %d places", c.Len())
		}
	}
}

// TestPermitCacheTogether: many verify the same few permits at a time.
func TestPermitCacheTogether(t *testing.T) {
	w := newWorld(t)
	c := admission.NewPermitCache(3)
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for range 100 {
				raw, state := pick(r, w.permits), pick(r, w.states)
				got := c.Verify(raw, state, state.ACEID(), subject, now)
				if want := uncached(raw, state, state.ACEID(), subject, now); fault.CodeOf(got) != fault.CodeOf(want) {
					t.Errorf("%v, without a cache %v", got, want)
				}
			}
		})
	}
	group.Wait()
	if c.Len() != 3 {
		t.Errorf("%d permits in a cache of 3", c.Len())
	}
}
