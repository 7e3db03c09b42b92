package core_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

func (a *agent) upkeep() core.UpkeepReport {
	a.t.Helper()
	report, err := a.Upkeep(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return report
}

// healthy is upkeep without a failure.
func (a *agent) healthy() core.UpkeepReport {
	a.t.Helper()
	report := a.upkeep()
	for _, f := range report.Failures {
		a.t.Errorf("%s %s: %v", f.Step, f.Peer, f.Err)
	}
	return report
}

// refuses reports whether the relay refuses what the other sends.
func (a *agent) refuses(other *agent) bool {
	a.t.Helper()
	out, err := other.Enqueue(other.t.Context(), core.OutMessage{To: a.ACEID(), Body: profile.TextBody("x")})
	if err == nil {
		_, err = other.Attempt(other.t.Context(), out.MessageID)
	}
	if err != nil && !errors.Is(err, fault.NotPermitted) {
		a.t.Fatal(err)
	}
	return err != nil
}

// change opens the store of an agent beside it, as another process does.
func (a *agent) change(f func(tx *store.Tx) error) {
	a.t.Helper()
	s, err := store.Open(a.t.Context(), a.config.StorePath, a.config.VaultKey)
	if err != nil {
		a.t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(a.t.Context(), f); err != nil {
		a.t.Fatal(err)
	}
}

// delegate gives an agent a new signing key.
func (a *agent) delegate(r *relay) {
	a.t.Helper()
	r.ahead.Add(1)
	a.reopen(func(c *core.Config) {
		key := newKey()
		state, err := c.Identity.State().Delegate(a.root, key.PublicKey(), r.clock(), r.clock()+wire.MaxSigningKeyLifetime)
		if err != nil {
			a.t.Fatal(err)
		}
		c.Identity = kel.NewIdentity(state, key)
	})
}

// recover puts the next root in the place of the current epoch, as after a theft,
// and delegates to a new key. The relay does not know of that.
func (a *agent) recover(r *relay) {
	a.t.Helper()
	r.ahead.Add(1)
	a.reopen(func(c *core.Config) {
		key := newKey()
		state, err := c.Identity.State().Recover(a.next, kel.Commitment(wire.SchemeMLDSA65, newKey().PublicKey()), r.clock())
		if err == nil {
			state, err = state.Delegate(a.next, key.PublicKey(), r.clock(), r.clock()+wire.MaxSigningKeyLifetime)
		}
		if err != nil {
			a.t.Fatal(err)
		}
		c.Identity = kel.NewIdentity(state, key)
	})
}

func TestBlockAtTheRelay(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	d, err := alice.Block(t.Context(), bob.ACEID())
	if err != nil || !d.Confirmed || !d.Blocked || d.Superseded {
		t.Fatalf("decision %+v: %v", d, err)
	}
	if !alice.refuses(bob) {
		t.Error("the relay takes a message of a blocked peer")
	}
	if _, err := alice.Connect(t.Context(), bob.ACEID(), profile.TextID, ""); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("connect: %v", err)
	}
	if report := alice.healthy(); report.Blocks != 0 {
		t.Error("a confirmed decision was registered again")
	}
	later, err := alice.Unblock(t.Context(), bob.ACEID())
	if err != nil || !later.Confirmed || later.Blocked || later.Revision <= d.Revision {
		t.Fatalf("decision %+v after %+v: %v", later, d, err)
	}
	if alice.refuses(bob) {
		t.Error("the relay still refuses")
	}
}

// A decision that no relay has confirmed is registered at upkeep with the same
// revision (05#blocks).
func TestBlockWithoutARelay(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	alice.reopen(func(c *core.Config) { c.Relay = "" })
	d, err := alice.Block(t.Context(), bob.ACEID())
	if err == nil || d.ACEID == "" || d.Confirmed {
		t.Fatalf("decision %+v: %v", d, err)
	}
	alice.reopen(func(c *core.Config) { c.Relay = r.url })
	if alice.refuses(bob) {
		t.Fatal("the relay knows already: the test does not look")
	}
	if report := alice.healthy(); report.Blocks != 1 {
		t.Errorf("report %+v", report)
	}
	if !alice.refuses(bob) {
		t.Error("the relay does not know of the block")
	}
	alice.change(func(tx *store.Tx) error {
		b, _, err := tx.Block(bob.ACEID())
		if b.Revision != d.Revision {
			t.Errorf("revision %d, decided with %d", b.Revision, d.Revision)
		}
		return err
	})
}

// A relay that answers stale_revision holds a later decision, or had taken this
// one before its answer was lost. Neither is registered over and over.
func TestStaleRevision(t *testing.T) {
	for _, lost := range []bool{true, false} {
		r := newRelay(t)
		alice, bob := newAgent(t, r, closed()), newAgent(t, r, closed())
		alice.publish(false)
		d, err := alice.Block(t.Context(), bob.ACEID())
		if err != nil {
			t.Fatal(err)
		}
		alice.change(func(tx *store.Tx) error {
			b := store.Block{Peer: bob.ACEID(), Blocked: true, Revision: d.Revision - 5}
			if lost {
				b.Posted, b.Revision = r.url, d.Revision
			}
			return tx.SetBlock(b)
		})
		if report := alice.healthy(); report.Blocks != 1 {
			t.Errorf("lost answer %v: report %+v", lost, report)
		}
		alice.change(func(tx *store.Tx) error {
			if b, _, err := tx.Block(bob.ACEID()); b.Superseded == lost || b.Settled != r.url || err != nil {
				t.Errorf("lost answer %v: %+v, %v", lost, b, err)
			}
			return nil
		})
		if report := alice.healthy(); report.Blocks != 0 {
			t.Error("registered once more")
		}
	}
}

// A block survives a restart, and at the relay the loss of the store. A decision
// made without the lost ones outranks them (05#blocks).
func TestBlockOutlivesTheStore(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	var before core.BlockDecision
	for range 3 { // the revision runs ahead of the clock
		var err error
		if before, err = alice.Block(t.Context(), bob.ACEID()); err != nil {
			t.Fatal(err)
		}
	}
	alice.reopen(func(*core.Config) {})
	if _, err := alice.Connect(t.Context(), bob.ACEID(), profile.TextID, ""); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("connect after a restart: %v", err)
	}
	if !alice.refuses(bob) {
		t.Error("the relay takes a message of a blocked peer")
	}
	alice.reopen(func(c *core.Config) { c.StorePath = filepath.Join(t.TempDir(), "ace", "store.db") })
	alice.publish(false)
	if !alice.refuses(bob) {
		t.Error("the relay has forgotten the block with the store")
	}
	r.ahead.Add(10)
	after, err := alice.Unblock(t.Context(), bob.ACEID())
	if err != nil || !after.Confirmed || after.Revision <= before.Revision {
		t.Errorf("decision %+v after %+v: %v", after, before, err)
	}
	if alice.refuses(bob) {
		t.Error("the relay still refuses")
	}
}

// A relay that has forgotten the identity has forgotten its blocks too.
func TestRelayThatForgotTheBlocks(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	if _, err := alice.Block(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	r.ahead.Add(10)
	client := relayclient.New(relayclient.Config{Identity: alice.config.Identity, URLs: wire.Development, Configured: []string{r.url}})
	defer client.Close()
	if err := client.Unregister(t.Context(), r.url, r.clock()); err != nil {
		t.Fatal(err)
	}
	if report := alice.healthy(); report.Published.Registered == "" || !report.Published.Descriptor || report.Blocks != 1 {
		t.Errorf("report %+v", report)
	}
	if !alice.refuses(bob) {
		t.Error("the relay does not know of the block")
	}
}

// After a new signing key, upkeep publishes and sends each admitted peer a fresh
// permit once, so that a closed agent stays in reach (05#delivery-permits).
func TestPermitsAfterANewKey(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, closed()), newAgent(t, r, open())
	befriend(alice, bob)
	bob.send(alice, "before")
	alice.pull()
	bob.pull()
	alice.delegate(r)
	report := alice.healthy()
	if report.Published.Registered != "rotated" || !report.Published.Descriptor || !report.Published.Card || report.Permits != 1 {
		t.Errorf("report %+v", report)
	}
	bob.pull()
	alice.pull()
	bob.send(alice, "after")
	alice.pull()
	if report := alice.healthy(); report.Permits != 0 || report.Published.Descriptor || report.Published.Card {
		t.Errorf("a second pass: %+v", report)
	}
	wantPermits(t, alice, true, true)
	bob.delegate(r)
	wantPermits(t, bob, false, true)
	if _, err := bob.RenewPermit(t.Context(), alice.ACEID()); err != nil {
		t.Fatal(err)
	}
	wantPermits(t, bob, true, true)
	if _, err := bob.RenewPermit(t.Context(), bob.ACEID()); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("renewed with a stranger: %v", err)
	}
}

func wantPermits(t *testing.T, a *agent, issued, held bool) {
	t.Helper()
	permits, err := a.Permits(t.Context())
	if err != nil || len(permits) != 2 {
		t.Fatalf("permits %+v: %v", permits, err)
	}
	for _, p := range permits {
		if want := map[bool]bool{true: held, false: issued}[p.Held]; p.Valid != want {
			t.Errorf("permit %+v: want valid %v", p, want)
		}
	}
}

// A relay that is down fails its steps and no other: what has ended is removed,
// and the next pass does what this one could not.
func TestUpkeepGoesOn(t *testing.T) {
	r := newRelay(t)
	alice, bob, carl := newAgent(t, r, closed()), newAgent(t, r, open()), newAgent(t, r, open())
	befriend(alice, bob)
	befriend(alice, carl)
	alice.delegate(r)
	if _, err := alice.Block(t.Context(), alice.ACEID()); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("blocked itself: %v", err)
	}
	alice.change(func(tx *store.Tx) error {
		return errors.Join(
			tx.SetContact(store.Contact{Peer: wire.ACEID("x"), State: "pending", ExpiresAt: r.clock() - 1}),
			tx.SetBlock(store.Block{Peer: wire.ACEID("y"), Blocked: true, Revision: 1}),
		)
	})
	r.stop()
	report := alice.upkeep()
	var steps []string
	for _, f := range report.Failures {
		steps = append(steps, f.Step)
		if !fault.CodeOf(f.Err).Retryable() {
			t.Errorf("%s: %v", f.Step, f.Err)
		}
	}
	want := []string{core.UpkeepRegistration, core.UpkeepDescriptor, core.UpkeepCard, core.UpkeepBlock, core.UpkeepPermit}
	if !slices.Equal(steps, want) || report.Pruned != 1 {
		t.Errorf("failed %v, removed %d", steps, report.Pruned)
	}
}

// Upkeep publishes a descriptor before the last one expires, and again what
// failed the time before (05#delivery-permits, Upkeep).
func TestUpkeepPublishes(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	if report := a.healthy(); !report.Published.Descriptor || !report.Published.Card {
		t.Errorf("first pass: %+v", report)
	}
	for _, path := range []string{"/v1/descriptor", "/v1/card"} {
		a.reopen(func(c *core.Config) {
			c.Transport = &refusing{path: path, times: 1}
			c.Card.Listed = !c.Card.Listed
		})
		r.ahead.Add(4 * 86400)
		if report := a.upkeep(); len(report.Failures) != 1 {
			t.Errorf("%s refused: %+v", path, report)
		}
		report := a.healthy()
		if (path == "/v1/descriptor") != report.Published.Descriptor || (path == "/v1/card") != report.Published.Card {
			t.Errorf("after %s was refused: %+v", path, report)
		}
	}
}

// A permit refresh that no relay took is due at the next upkeep.
func TestPermitRefreshIsRetried(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, closed()), newAgent(t, r, open())
	befriend(alice, bob)
	alice.delegate(r)
	alice.reopen(func(c *core.Config) { c.Transport = &refusing{path: "/v1/send", times: 1} })
	report := alice.upkeep()
	if len(report.Failures) != 1 || report.Failures[0].Step != core.UpkeepPermit || report.Failures[0].Peer != bob.ACEID() || report.Permits != 0 {
		t.Errorf("refused: %+v", report)
	}
	if report := alice.healthy(); report.Permits != 1 {
		t.Errorf("the next pass: %+v", report)
	}
}

// Upkeep makes the attempts of the Outbox that are due, and no other.
func TestUpkeepRetriesWhatIsDue(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	fixed := r.clock()
	at := func(now int64) {
		network := &refusing{path: "/v1/send"}
		if now == fixed {
			network.times = 1
		}
		bob.reopen(func(c *core.Config) {
			c.Clock = func() int64 { return now }
			c.Transport = network
		})
	}
	at(fixed)
	out, err := bob.Enqueue(t.Context(), core.OutMessage{To: alice.ACEID(), Body: profile.TextBody("x")})
	if err != nil {
		t.Fatal(err)
	}
	if out, err = bob.Attempt(t.Context(), out.MessageID); err == nil || out.NextAttemptAt <= fixed {
		t.Fatalf("the relay took it: %+v", out)
	}
	at(out.NextAttemptAt - 1)
	if report := bob.healthy(); report.Relayed != 0 {
		t.Errorf("before it is due: %+v", report)
	}
	at(out.NextAttemptAt)
	if report := bob.healthy(); report.Relayed != 1 {
		t.Errorf("when it is due: %+v", report)
	}
	wantKinds(t, alice.pull(), core.EventMessage)
}

func TestUpkeepEndsWithItsContext(t *testing.T) {
	r := newRelay(t)
	alice := newAgent(t, r, closed())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := alice.Upkeep(ctx); !errors.Is(err, ctx.Err()) {
		t.Errorf("upkeep: %v", err)
	}
}

// "at least every 3600 seconds" (05#delivery-permits): also for a pass that falls
// due when Keep has just looked.
func TestUpkeepIsNeverLate(t *testing.T) {
	for range 1000 {
		if after := core.TestOnlyUpkeepDelay(0, core.TestOnlyJitter()) + core.TestOnlyKeepInterval; after > 3600 || after < 3000 {
			t.Fatalf("a pass can come %d s after the last one", after)
		}
	}
}

// The first pass comes at once, and a failure brings the next one forward.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		failed       int
		jitter, want int64
	}{{0, 0, 3600}, {0, 599, 3001}, {1, 0, 60}, {2, 0, 120}, {6, 0, 1920}, {7, 0, 3600}, {7, 100, 3500}, {99, 0, 3600}} {
		if got := core.TestOnlyUpkeepDelay(c.failed, c.jitter); got != c.want {
			t.Errorf("after %d failures with jitter %d: %d s, want %d", c.failed, c.jitter, got, c.want)
		}
	}
	r := newRelay(t)
	alice := newAgent(t, r, closed())
	ctx, stop := context.WithCancel(t.Context())
	passes := make(chan core.UpkeepReport, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		alice.Keep(ctx, core.KeepOptions{OnUpkeep: func(u core.UpkeepReport) { passes <- u }})
	}()
	select {
	case report := <-passes:
		if !report.Published.Descriptor {
			t.Errorf("report %+v", report)
		}
	case <-time.After(30 * time.Second):
		t.Error("no upkeep")
	}
	stop()
	<-ended
}

// A pass is put off while somebody else has changed what the identity says of
// itself: it would publish what was so before.
func TestKeepPutsOff(t *testing.T) {
	alice := newAgent(t, newRelay(t), closed())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	alice.Keep(ctx, core.KeepOptions{
		OnUpkeep: func(core.UpkeepReport) { t.Error("a pass"); stop() },
		PutOff:   func() bool { stop(); return true },
	})
	if registered, err := alice.Registered(t.Context()); err != nil || registered {
		t.Errorf("registered: %v, %v", registered, err)
	}
}

// A closed agent is reached by whom it invited (05#invitations).
func TestInvitation(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, closed()), newAgent(t, r, closed())
	bob.publish(false)
	if _, err := alice.Block(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	made, err := alice.Invite(t.Context(), bob.ACEID(), core.InviteOptions{})
	if err != nil || made.Contact.State != "admitted" || made.Unblocked == nil || !made.Unblocked.Confirmed || made.Contact.IssuedPermit != made.ExpiresAt {
		t.Fatalf("made %+v: %v", made, err)
	}
	from, err := bob.ImportInvitation(t.Context(), made.Text)
	if err != nil || from.ACEID != alice.ACEID() || from.State != "" || from.HeldPermit != made.ExpiresAt {
		t.Fatalf("imported %+v: %v", from, err)
	}
	if _, err := alice.ImportInvitation(t.Context(), made.Text); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("imported by somebody else: %v", err)
	}
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, ""); err != nil {
		t.Fatal(err)
	}
	alice.pull()
	bob.pull()
	alice.send(bob, "welcome")
	wantKinds(t, bob.pull(), core.EventMessage)
	if abandoned, err := alice.Forget(t.Context(), bob.ACEID()); err != nil || abandoned != 1 {
		t.Errorf("%d abandoned: %v", abandoned, err)
	}
	if contacts, err := alice.Contacts(t.Context()); err != nil || len(contacts) != 0 {
		t.Errorf("contacts %+v: %v", contacts, err)
	}
}

// The first message that is signed with a new key finds the permit refresh ahead of
// it: the peer has what it needs for its receipt (05#delivery-permits). Nobody can
// receipt what stands before the refresh, least of all to who is closed.
func TestPermitRefreshGoesFirst(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	r.ahead.Add(wire.PinRefreshIntervalSeconds + 1)
	bob.delegate(r)
	bob.publish(false)
	bob.send(alice, "one")
	bob.send(alice, "two")
	if kinds := alice.pull(); !slices.Equal(kinds, []string{"message", "message"}) {
		t.Errorf("alice got %q", kinds)
	}
	bob.pull()
	for _, out := range bob.outbox() {
		if out.State != core.StateDelivered {
			t.Errorf("%s", out.State)
		}
	}
	if report := bob.healthy(); report.Permits != 0 {
		t.Errorf("upkeep sent %d permits more", report.Permits)
	}
}

// So it does for what was queued and is attempted later.
func TestPermitRefreshGoesBeforeRetries(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	for _, text := range []string{"one", "two"} {
		if _, err := bob.Enqueue(t.Context(), core.OutMessage{To: alice.ACEID(), Body: profile.TextBody(text)}); err != nil {
			t.Fatal(err)
		}
	}
	r.ahead.Add(wire.PinRefreshIntervalSeconds + 1)
	bob.delegate(r)
	bob.publish(false)
	if n, err := bob.RetryDue(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	alice.pull()
	bob.pull()
	for _, out := range bob.outbox() {
		if out.State != core.StateDelivered {
			t.Errorf("%s", out.State)
		}
	}
}
