package kel_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// reparsed returns the log as it would arrive again, sharing no memory.
func reparsed(t testing.TB, s *kel.State) wire.Value {
	t.Helper()
	v, err := wire.Parse(s.Raw(), wire.MaxJSONDepth)
	must(t, err)
	return v
}

func TestCacheHit(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(4)
	log := p.draw("icp -> dlg")
	first, err := c.Verify(reparsed(t, log), later)
	must(t, err)
	again, err := c.Verify(reparsed(t, log), later)
	must(t, err)
	if first != again {
		t.Error("the second time is no hit")
	}
	if first.Digest() != log.Digest() {
		t.Error("another log came back")
	}
}

// TestCacheHitChecksTime: of a remembered log everything stays true but the
// bound on future timestamps, for a clock that was set back.
func TestCacheHitChecksTime(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(4)
	log := p.draw("icp -> dlg")
	_, err := c.Verify(log.Value(), later)
	must(t, err)
	_, err = c.Verify(log.Value(), log.LastTS()-wire.TimestampWindowSeconds)
	must(t, err)
	_, err = c.Verify(log.Value(), log.LastTS()-wire.TimestampWindowSeconds-1)
	wantCode(t, err, fault.InvalidKEL)
	_, err = c.Verify(log.Value(), -1)
	wantCode(t, err, fault.InvalidArgument)
}

// TestCacheComparesWhole: a log that ends like a remembered one is not it.
func TestCacheComparesWhole(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(4)
	log := p.draw("icp -> dlg -> dlg")
	_, err := c.Verify(log.Value(), later)
	must(t, err)

	items := log.Value().Items()
	// The signature of the first event in place of that of the second.
	sig, _ := items[0].Get("sig")
	forged := wire.NewArray(items[0], items[1].With("sig", sig), items[2])
	_, err = c.Verify(forged, later)
	wantCode(t, err, fault.InvalidSignature)
	_, err = c.Verify(wire.NewArray(items[2]), later)
	wantCode(t, err, fault.InvalidKEL)
	_, err = c.Verify(wire.NewArray(items[0], items[1], items[2].With("x", wire.Value{})), later)
	wantCode(t, err, fault.InvalidKEL)

	hit, err := c.Verify(log.Value(), later)
	must(t, err)
	if hit.Digest() != log.Digest() {
		t.Error("another log came back")
	}
}

func TestCacheKeepsNoFailure(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(4)
	log := p.draw("icp -> dlg")
	_, err := c.Verify(log.Value(), dayOne-wire.TimestampWindowSeconds)
	wantCode(t, err, fault.InvalidKEL)
	_, err = c.Verify(log.Value(), later)
	must(t, err)
	for _, v := range []wire.Value{{}, wire.NewArray(), wire.NewArray(wire.Value{}), wire.NewString("kel")} {
		for range 2 {
			_, err := c.Verify(v, later)
			wantCode(t, err, fault.InvalidKEL)
		}
	}
}

// TestCacheForgets: the log used longest ago goes first, and a long log takes
// the place of several.
func TestCacheForgets(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(1) // a short log or two
	verify := func(drawing string) *kel.State {
		s, err := c.Verify(p.draw(drawing).Value(), later)
		must(t, err)
		return s
	}
	a, b := verify("icp"), verify("icp'")
	if verify("icp") != a {
		t.Fatal("a log was forgotten while there was room")
	}
	verify("icp''") // makes icp' go, which was used longest ago
	if verify("icp") != a {
		t.Error("the log used last was forgotten")
	}
	if verify("icp'") == b {
		t.Error("nothing was forgotten")
	}

	long := verify("icp -> dlg -> dlg -> dlg -> dlg -> dlg -> dlg")
	if verify("icp -> dlg -> dlg -> dlg -> dlg -> dlg -> dlg") != long {
		t.Error("a log longer than the cache was not kept at all")
	}
	if verify("icp") == a {
		t.Error("a long log counts as a short one")
	}
}

func TestNoCache(t *testing.T) {
	p := newPen(t)
	var c *kel.Cache
	s, err := c.Verify(p.draw("icp -> dlg").Value(), later)
	must(t, err)
	again, err := c.Verify(p.draw("icp -> dlg").Value(), later)
	must(t, err)
	if s == again || s.Digest() != again.Digest() {
		t.Error("a nil cache remembers")
	}
}

// TestCacheConcurrently is for the race detector.
func TestCacheConcurrently(t *testing.T) {
	p := newPen(t)
	c := kel.NewCache(1)
	logs := []*kel.State{p.draw("icp -> dlg"), p.draw("icp -> dlg*"), p.draw("icp' -> dlg"), p.draw("icp -> dlg -> dlg")}
	sig, err := kel.NewIdentity(logs[0], p.signing(0)).Sign(kel.ActionInbox, later, nil)
	must(t, err)

	var wg sync.WaitGroup
	failures := make(chan error, 8*len(logs))
	for i := range 8 {
		wg.Go(func() {
			for j := range logs {
				failures <- use(c, logs[(i+j)%len(logs)], sig)
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		must(t, err)
	}
}

// use does what a relay does with a registered log.
func use(c *kel.Cache, log *kel.State, sig wire.Signature) error {
	s, err := c.Verify(log.Value(), later)
	if err != nil {
		return err
	}
	if s.Digest() != log.Digest() {
		return fmt.Errorf("%s became %s", log.ACEID(), s.ACEID())
	}
	// Only one of the logs made the signature; the key is expanded all the same.
	_ = s.VerifySignature(kel.ActionInbox, sig, later, later, nil, fault.InvalidSignature)
	return nil
}
