package core_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// relay is a real relay on loopback. Its clock and that of its clients is moved
// by ahead, and by nothing else once it stands.
type relay struct {
	url    string
	ahead  atomic.Int64
	stood  atomic.Int64 // since when it stands
	config relaysvc.Config
	stop   func()
}

func (r *relay) clock() int64 {
	now := r.stood.Load()
	if now == 0 {
		now = time.Now().Unix()
	}
	return now + r.ahead.Load()
}

// stand stops the clock, for a test that counts seconds.
func (r *relay) stand() { r.stood.Store(time.Now().Unix()) }

func newRelay(t *testing.T, changes ...func(*relaysvc.Config)) *relay {
	t.Helper()
	r := &relay{}
	r.config = relaysvc.Config{Development: true, DBPath: filepath.Join(t.TempDir(), "relay", "relay.db"), Clock: r.clock}
	for _, change := range changes {
		change(&r.config)
	}
	r.serve(t, "127.0.0.1:0")
	return r
}

// serve runs the relay at an address until its stop is called.
func (r *relay) serve(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if r.url, err = relaysvc.LoopbackURL(listener.Addr()); err != nil {
		t.Fatal(err)
	}
	config := r.config
	if config.PublicURL == "" { // else it stands behind something
		config.PublicURL = r.url
	}
	server, err := relaysvc.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
}

// agent is an endpoint at a relay with what it takes to open it again.
type agent struct {
	*core.Endpoint
	t      *testing.T
	config core.Config
	root   *suite.SigningKey
	next   *suite.SigningKey // the committed next root
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

func newAgent(t *testing.T, r *relay, card descriptor.CardRecord) *agent {
	t.Helper()
	root, next, key := newKey(), newKey(), newKey()
	now := r.clock()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
	if err == nil {
		state, err = state.Delegate(root, key.PublicKey(), now, now+wire.MaxSigningKeyLifetime)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, root: root, next: next, config: core.Config{
		Identity: kel.NewIdentity(state, key), StorePath: filepath.Join(t.TempDir(), "ace", "store.db"), VaultKey: suite.NewSeed(),
		Relay: r.url, Profiles: []*profile.Manifest{profile.OfficialByID(profile.TextID)}, Card: card, Loopback: true, Clock: r.clock, ReceiveBy: "test",
	}}
	a.open()
	t.Cleanup(func() { a.Close() })
	return a
}

func (a *agent) open() {
	a.t.Helper()
	e, err := core.Open(a.t.Context(), a.config)
	if err != nil {
		a.t.Fatal(err)
	}
	a.Endpoint = e
}

// reopen closes the endpoint and opens it with a changed configuration.
func (a *agent) reopen(change func(*core.Config)) {
	a.t.Helper()
	if err := a.Close(); err != nil {
		a.t.Fatal(err)
	}
	change(&a.config)
	a.open()
}

func (a *agent) publish(force bool) core.Published {
	a.t.Helper()
	p, err := a.Publish(a.t.Context(), core.PublishOptions{Force: force})
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// pull returns the kinds of the events, in order.
func (a *agent) pull() (kinds []string) {
	a.t.Helper()
	_, err := a.Pull(a.t.Context(), 0, func(e core.Event) { kinds = append(kinds, e.Kind) })
	if err != nil {
		a.t.Fatal(err)
	}
	return kinds
}

func (a *agent) send(to *agent, text string) core.Outgoing {
	a.t.Helper()
	out, err := a.Enqueue(a.t.Context(), core.OutMessage{To: to.ACEID(), Body: profile.TextBody(text)})
	if err == nil {
		out, err = a.Attempt(a.t.Context(), out.MessageID)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

func open() descriptor.CardRecord   { return descriptor.CardRecord{Contact: "open"} }
func closed() descriptor.CardRecord { return descriptor.CardRecord{Contact: "closed"} }

// befriend makes a and b admit each other over the relay.
func befriend(a, b *agent) {
	a.t.Helper()
	a.publish(false)
	b.publish(false)
	if _, err := a.Connect(a.t.Context(), b.ACEID(), profile.TextID, "hi"); err != nil {
		a.t.Fatal(err)
	}
	b.pull()
	if _, err := b.Accept(b.t.Context(), a.ACEID()); err != nil {
		b.t.Fatal(err)
	}
	a.pull()
}

func TestMainJob(t *testing.T) {
	r := newRelay(t)
	alice := newAgent(t, r, descriptor.CardRecord{Contact: "open", Handle: "alice", Card: descriptor.Card{Description: "hello"}})
	bob := newAgent(t, r, closed())
	if p := alice.publish(false); p.Registered != "registered" || !p.Descriptor || !p.Card || p.Handle != "@alice@"+r.url[len("http://"):] {
		t.Fatalf("published %+v", p)
	}
	id, err := bob.Resolve(t.Context(), "@alice@"+r.url[len("http://"):])
	if err != nil || id != alice.ACEID() {
		t.Fatalf("resolved %q: %v", id, err)
	}
	peer, err := bob.Lookup(t.Context(), id)
	if err != nil || peer.PinOutcome != "adopted" || peer.Card == nil || peer.Card.Card.Description != "hello" {
		t.Fatalf("looked up %+v: %v", peer, err)
	}
	contact, err := bob.Connect(t.Context(), id, profile.TextID, "I am Bob")
	if err != nil || contact.State != "pending" {
		t.Fatalf("connected %+v: %v", contact, err)
	}
	wantKinds(t, alice.pull(), core.EventContactRequest)
	requests, err := alice.Requests(t.Context())
	if err != nil || len(requests) != 1 || requests[0].Note != "I am Bob" {
		t.Fatalf("requests %+v: %v", requests, err)
	}
	accepted, err := alice.Accept(t.Context(), bob.ACEID())
	if err != nil || accepted.State != "admitted" || accepted.HeldPermit == 0 || accepted.IssuedPermit == 0 {
		t.Fatalf("accepted %+v: %v", accepted, err)
	}
	wantKinds(t, bob.pull(), core.EventContact)
	out := bob.send(alice, "hello")
	if out.State != core.StateRelayed || out.Relay != r.url {
		t.Fatalf("after the attempt %+v", out)
	}
	wantKinds(t, alice.pull(), core.EventMessage)
	inbox, err := alice.Inbox(t.Context(), core.InboxFilter{Unhandled: true})
	if err != nil || len(inbox) != 1 || !inbox[0].Body.Equal(profile.TextBody("hello")) {
		t.Fatalf("inbox %+v: %v", inbox, err)
	}
	wantKinds(t, bob.pull(), core.EventReceipt)
	if out, err = bob.OutboxEntry(t.Context(), out.MessageID); err != nil || out.State != core.StateDelivered || out.NextAttemptAt != 0 {
		t.Fatalf("outbox %+v: %v", out, err)
	}
	alice.send(bob, "and back")
	wantKinds(t, bob.pull(), core.EventMessage)
	wantKinds(t, alice.pull(), core.EventReceipt)
}

func wantKinds(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("events %v, want %v", got, want)
		}
	}
}

func TestPublishOnlyWhatChanged(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	if p := a.publish(false); p.Registered != "" || p.Descriptor || p.Card || p.DescriptorExpires == 0 {
		t.Errorf("nothing changed: %+v", p)
	}
	if p := a.publish(true); !p.Descriptor || !p.Card {
		t.Errorf("forced: %+v", p)
	}
	a.reopen(func(c *core.Config) { c.Card.Contact = "closed" })
	if p := a.publish(false); p.Descriptor || !p.Card {
		t.Errorf("another card: %+v", p)
	}
	r.ahead.Add(4 * 86400)
	if p := a.publish(false); !p.Descriptor || p.Card {
		t.Errorf("half of the descriptor's life is over: %+v", p)
	}
}

// TestAnnouncedProfiles: the descriptor lists each enabled profile by its ID and
// digest, and never core (08#installation-and-announcement).
func TestAnnouncedProfiles(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	text, trade := profile.OfficialByID(profile.TextID), profile.OfficialByID(profile.CommerceID)
	for _, enabled := range [][]*profile.Manifest{{text}, {text, trade}, {}} {
		a.reopen(func(c *core.Config) { c.Profiles = enabled })
		a.publish(false)
		peer, err := a.Lookup(t.Context(), a.ACEID())
		if err != nil {
			t.Fatal(err)
		}
		var want []descriptor.Profile
		for _, m := range enabled {
			want = append(want, descriptor.Profile{ID: m.ID, Digest: m.Digest})
		}
		if got := peer.Descriptor.Profiles; !slices.Equal(got, want) {
			t.Errorf("announced %+v, want %+v", got, want)
		}
	}
}

// TestPublishAfter: whoever lost its store publishes later than what others have
// seen, also where the relay has forgotten it.
func TestPublishAfter(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	seen := r.clock() + 100
	if _, err := a.Publish(t.Context(), core.PublishOptions{After: seen}); err != nil {
		t.Fatal(err)
	}
	peer, err := a.Lookup(t.Context(), a.ACEID())
	if err != nil || peer.Card.IssuedAt <= seen || peer.Descriptor.IssuedAt <= seen {
		t.Errorf("published %+v: %v", peer, err)
	}
}

func TestPublishAfterANewSigningKey(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	r.ahead.Add(10)
	a.delegate(r)
	if p := a.publish(false); p.Registered != "rotated" || !p.Descriptor || !p.Card {
		t.Errorf("published %+v", p)
	}
}

// The relay was away when the identity got a new signing key: the inbox could
// not be read any more, with future_seq, until the next publication.
func TestReceiveUnderANewSigningKey(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	bob.send(alice, "hello")
	r.ahead.Add(10)
	alice.delegate(r)
	wantKinds(t, alice.pull(), core.EventMessage)

	alice.delegate(r)
	if err := listenUntilConnected(alice, bob); err != nil || t.Context().Err() != nil {
		t.Errorf("listening ended with %v", err)
	}
}

// So it was with block decisions, and with the descriptor, which had a
// kel_conflict, when upkeep went on after a registration that failed.
func TestRegisterUnderANewSigningKeyWhenAsked(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	alice.delegate(r)
	if d, err := alice.Block(t.Context(), bob.ACEID()); err != nil || !d.Confirmed {
		t.Errorf("blocked %+v: %v", d, err)
	}
	bob.delegate(r)
	bob.reopen(func(c *core.Config) { c.Transport = &refusing{path: "/v1/register", times: 1} })
	report, err := bob.Upkeep(t.Context())
	if err != nil || !report.Published.Descriptor || !report.Published.Card {
		t.Errorf("upkeep did %+v: %v", report, err)
	}
}

// The simulation recovered an identity while its relay was away: the inbox could
// not be read any more, nor anything else be asked of the relay, until the next
// publication. Where the relay has as many events as the recovered log it says
// invalid_signature, and where it has more, stale_seq.
func TestAskAfterARecovery(t *testing.T) {
	for name, keys := range map[string]int{"as many events": 1, "more events": 2} {
		t.Run(name, func(t *testing.T) {
			for what, ask := range map[string]func(a, b *agent) error{
				"pull":       func(a, _ *agent) error { _, err := a.Pull(t.Context(), 0, nil); return err },
				"listen":     listenUntilConnected,
				"block":      func(a, b *agent) error { _, err := a.Block(t.Context(), b.ACEID()); return err },
				"unregister": func(a, _ *agent) error { _, err := a.Unregister(t.Context()); return err },
			} {
				r := newRelay(t)
				alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
				befriend(bob, alice)
				for range keys {
					alice.delegate(r)
					alice.publish(false)
				}
				alice.recover(r)
				if err := ask(alice, bob); err != nil || t.Context().Err() != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// listenUntilConnected listens until the stream has begun.
func listenUntilConnected(a, _ *agent) error {
	listening, stop := context.WithCancel(a.t.Context())
	return a.Listen(listening, func(e core.Event) {
		if e.Kind == core.EventConnection && e.Connection.State == "connected" {
			stop()
		}
	})
}

// An endpoint that lost its store publishes again although its relay holds newer
// documents and a newer registration.
func TestPublishAfterTheStoreIsLost(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	a.publish(true)
	a.reopen(func(c *core.Config) { c.StorePath = filepath.Join(t.TempDir(), "ace", "store.db") })
	if p := a.publish(false); p.Registered == "" || !p.Descriptor || !p.Card {
		t.Errorf("published %+v", p)
	}
}

// An identity that its relay no longer knows is registered again on demand.
func TestPublishAtARelayThatForgot(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	client := relayclient.New(relayclient.Config{Identity: a.config.Identity, URLs: wire.Development})
	defer client.Close()
	r.ahead.Add(10)
	if err := client.Unregister(t.Context(), r.url, r.clock()); err != nil {
		t.Fatal(err)
	}
	if p := a.publish(false); p.Registered == "" || !p.Descriptor || !p.Card {
		t.Errorf("published %+v", p)
	}
}

func TestPublishAtAnotherRelay(t *testing.T) {
	first, second := newRelay(t), newRelay(t)
	a := newAgent(t, first, open())
	a.publish(false)
	a.reopen(func(c *core.Config) { c.Relay = second.url })
	if p := a.publish(false); p.Registered != "registered" || !p.Descriptor || !p.Card {
		t.Errorf("published %+v", p)
	}
}

// A clock that ran ahead for a while leaves nothing behind that has to be waited
// for.
func TestPublishAfterAClockAhead(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	a.reopen(func(c *core.Config) {
		c.Clock = func() int64 { return r.clock() + 3*86400 }
		c.Card.Contact = "closed"
	})
	if p, err := a.Publish(t.Context(), core.PublishOptions{Force: true}); err == nil {
		t.Fatalf("a descriptor from the future was published: %+v", p)
	}
	client := relayclient.New(relayclient.Config{Identity: a.config.Identity, URLs: wire.Development})
	defer client.Close()
	r.ahead.Add(10)
	if err := client.Unregister(t.Context(), r.url, r.clock()); err != nil {
		t.Fatal(err)
	}
	a.Publish(t.Context(), core.PublishOptions{Force: true}) // a registration from the future
	a.reopen(func(c *core.Config) { c.Clock = r.clock })
	if p := a.publish(false); p.Registered == "" || !p.Descriptor || !p.Card {
		t.Errorf("published %+v", p)
	}
}
