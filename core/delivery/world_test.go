package delivery_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	relay = "https://relay.example"
	start = int64(1_760_140_800)
)

// world is a relay in memory and the clock of everybody on it. It checks no
// permit: what a relay refuses is tested with the real one.
type world struct {
	mu     sync.Mutex
	now    int64
	stream int
	agents map[string]wire.Value
	queues map[string][]delivery.Entry
	posted []*packet.Packet
	permit [][]byte // presented with each posted packet
	refuse error    // what Post answers, nil: it queues
	lookup error    // what Lookup answers, nil: it looks up
	asked  int      // lookups
}

func newWorld() *world {
	return &world{now: start, agents: map[string]wire.Value{}, queues: map[string][]delivery.Entry{}}
}

func (w *world) clock() int64 { return w.now }

// endpoint is one identity of a world.
type endpoint struct {
	t     testing.TB
	world *world
	root  *suite.SigningKey
	id    *kel.Identity
	store *store.Store
	path  string
	vault *suite.Seed
	set   *profile.Set
	rules map[string]string
	room  int64 // messages not yet handled, 0: the usual bound
	laws  policy.Policy
	node  *delivery.Node
}

// newEndpoint makes an identity and publishes it with the given contact setting,
// "" for no card record. Rules are acceptProfiles rules.
func (w *world) newEndpoint(t testing.TB, contact string, rules map[string]string) *endpoint {
	t.Helper()
	e := w.newIdentity(t)
	e.rules = rules
	e.open()
	e.publish(contact)
	return e
}

// newIdentity makes an identity that neither stores nor publishes anything.
func (w *world) newIdentity(t testing.TB) *endpoint {
	t.Helper()
	root, next := newKey(), newKey()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), w.now)
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{t: t, world: w, root: root, path: filepath.Join(t.TempDir(), "ace", "store.db"), vault: suite.NewSeed(), set: profile.NewSet()}
	for _, m := range profile.Official() {
		if m.ID == profile.TextID {
			if err := e.set.Install(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	e.delegate(state)
	return e
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// delegate gives the identity a new signing key.
func (e *endpoint) delegate(state *kel.State) {
	e.t.Helper()
	e.delegateUntil(state, e.world.now+wire.MaxSigningKeyLifetime)
}

// delegateUntil gives the identity a new signing key that ends at notAfter.
func (e *endpoint) delegateUntil(state *kel.State, notAfter int64) {
	e.t.Helper()
	key := newKey()
	state, err := state.Delegate(e.root, key.PublicKey(), e.world.now, notAfter)
	if err != nil {
		e.t.Fatal(err)
	}
	e.id = kel.NewIdentity(state, key)
}

// open opens the store, again after a restart.
func (e *endpoint) open() {
	e.t.Helper()
	if e.store != nil {
		if err := e.store.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	s, err := store.Open(e.t.Context(), e.path, e.vault)
	if err != nil {
		e.t.Fatal(err)
	}
	e.store = s
	e.t.Cleanup(func() { s.Close() })
	e.node, err = delivery.New(e.t.Context(), delivery.Config{
		Identity: e.id, Store: s, Net: &endpointNet{e.world, e.id.ACEID()}, Profiles: e.set, Accept: e.rules, Home: relay, Policy: e.laws, Capacity: e.room,
	}, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
}

// publish rotates the prekey and publishes a descriptor and, unless contact is
// "", a card record.
func (e *endpoint) publish(contact string) {
	e.t.Helper()
	var listed []descriptor.Profile
	for _, m := range e.set.Manifests() {
		if m.ID != profile.CoreID {
			listed = append(listed, descriptor.Profile{ID: m.ID, Digest: m.Digest})
		}
	}
	e.update(func(tx *store.Tx) error {
		previous := int64(-1)
		if own, ok, err := tx.Own(store.OwnDescriptor); err != nil {
			return err
		} else if ok {
			previous = own.IssuedAt
		}
		key, err := delivery.RotatePublished(tx, e.world.now)
		if err != nil {
			return err
		}
		agent, err := descriptor.Build(e.id, descriptor.Fields{
			ExpiresAt: e.world.now + 86400, Relays: []string{relay}, Prekey: key, Profiles: listed,
		}, e.world.now, previous, descriptor.Options{})
		if err != nil {
			return err
		}
		e.world.agents[e.id.ACEID()] = agent.Value()
		if err := tx.SetOwn(store.OwnDescriptor, store.Document{IssuedAt: agent.IssuedAt, Raw: agent.Raw(), Relay: relay}); err != nil || contact == "" {
			return err
		}
		card, err := descriptor.BuildCard(e.id, descriptor.CardRecord{Home: relay, Contact: contact}, e.world.now, -1, descriptor.Options{})
		if err != nil {
			return err
		}
		return tx.SetOwn(store.OwnCard, store.Document{IssuedAt: card.IssuedAt, Raw: card.Raw(), Relay: relay})
	})
}

func (e *endpoint) update(f func(tx *store.Tx) error) {
	e.t.Helper()
	if err := e.store.Update(e.t.Context(), f); err != nil {
		e.t.Fatal(err)
	}
}

func (e *endpoint) view(f func(tx *store.Tx) error) {
	e.t.Helper()
	if err := e.store.View(e.t.Context(), f); err != nil {
		e.t.Fatal(err)
	}
}

// connect looks another endpoint up and sends it a contact request.
func (e *endpoint) connect(to *endpoint) store.Contact {
	e.t.Helper()
	if _, err := e.node.Lookup(e.t.Context(), to.id.ACEID(), e.world.now); err != nil {
		e.t.Fatal(err)
	}
	row, err := e.node.SendRequest(e.t.Context(), delivery.ContactRequest{
		To: to.id.ACEID(), Profile: profile.TextID, Note: "hi", Home: relay,
	}, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
	return row
}

// befriend makes a and b admit each other.
func befriend(a, b *endpoint) {
	a.t.Helper()
	a.connect(b)
	b.pull()
	if _, err := b.node.AcceptRequest(b.t.Context(), a.id.ACEID(), b.world.now); err != nil {
		b.t.Fatal(err)
	}
	a.pull()
	a.wantState(b, "admitted")
	b.wantState(a, "admitted")
}

// pull drains the inbox and returns what became of the entries.
func (e *endpoint) pull() []delivery.Result {
	e.t.Helper()
	var results []delivery.Result
	_, err := e.node.Pull(e.t.Context(), delivery.Pulling{Since: "-", Clock: e.world.clock, On: func(r delivery.Result) { results = append(results, r) }})
	if err != nil {
		e.t.Fatal(err)
	}
	return results
}

// pullOne expects one entry with the given outcome.
func (e *endpoint) pullOne(want delivery.Outcome, code fault.Code) delivery.Result {
	e.t.Helper()
	results := e.pull()
	if len(results) != 1 || results[0].Outcome != want || results[0].Code != code {
		e.t.Fatalf("got %+v, want one entry %s %q", results, want, code)
	}
	return results[0]
}

// take lets one packet through the pipeline.
func (e *endpoint) take(p *packet.Packet) (result delivery.Result) {
	e.t.Helper()
	entry := delivery.Entry{StreamID: "1-0", Packet: p.Value()}
	_, err := e.node.ReceivePage(e.t.Context(), []delivery.Entry{entry}, e.world.clock, func(r delivery.Result) { result = r })
	if err != nil {
		e.t.Fatal(err)
	}
	return result
}

// enqueue puts a text message into the Outbox.
func (e *endpoint) enqueue(to *endpoint, text string) store.OutboxEntry {
	e.t.Helper()
	entry, err := e.node.Enqueue(e.t.Context(), delivery.Message{To: to.id.ACEID(), Type: profile.TextType, Body: textBody(text)}, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
	return entry
}

func textBody(text string) wire.Value {
	return wire.NewObject(wire.M("message", wire.NewString(text)))
}

// send enqueues a text message and makes the first attempt.
func (e *endpoint) send(to *endpoint, text string) store.OutboxEntry {
	e.t.Helper()
	return e.attempt(e.enqueue(to, text).MessageID)
}

func (e *endpoint) attempt(messageID string) store.OutboxEntry {
	e.t.Helper()
	entry, err := e.node.Attempt(e.t.Context(), messageID, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
	return entry
}

// entry returns a message of the Outbox.
func (e *endpoint) entry(messageID string) (entry store.OutboxEntry) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		entry, _, err = tx.Outbox(messageID)
		return err
	})
	return entry
}

func (e *endpoint) wantState(of *endpoint, want string) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		row, _, err := tx.Contact(of.id.ACEID(), e.world.now)
		if row.State != want {
			e.t.Fatalf("state %q, want %q", row.State, want)
		}
		return err
	})
}

// inbox returns the texts received.
func (e *endpoint) inbox() (texts []string) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		messages, err := tx.Messages(store.MessageFilter{})
		for _, m := range messages {
			texts = append(texts, string(m.Body))
		}
		return err
	})
	return texts
}

// published returns the ID of the current published prekey.
func (e *endpoint) published() (id string) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		p, err := delivery.LoadPublished(tx)
		id = p.Current.ID
		delivery.DestroyPublished(p)
		return err
	})
	return id
}

// last is the packet posted last.
func (w *world) last() *packet.Packet { return w.posted[len(w.posted)-1] }

// redeliver queues a packet again, as a relay may.
func (w *world) redeliver(p *packet.Packet) {
	w.stream++
	w.queues[p.To] = append(w.queues[p.To], delivery.Entry{StreamID: strconv.Itoa(w.stream) + "-0", Packet: p.Value()})
}

// sealTo seals a message of any type to the published prekey of an endpoint.
func sealTo(to *endpoint, from *kel.Identity, messageType string, body wire.Value, now int64) *packet.Packet {
	to.t.Helper()
	message, ok := to.set.Type(messageType)
	if !ok {
		to.t.Fatalf("%s is not installed", messageType)
	}
	c := packet.Content{Type: messageType, SchemaDigest: message.Digest, Body: body, Prekey: newPrekey()}
	plaintext, err := c.Canonical()
	if err != nil {
		to.t.Fatal(err)
	}
	return sealPlaintext(to, from, plaintext, now)
}

func newPrekey() []byte {
	dk := suite.NewDecapsulationKey(suite.NewSeed())
	defer dk.Destroy()
	return dk.PublicKey()
}

// sealPlaintext seals any plaintext to the published prekey of an endpoint.
func sealPlaintext(to *endpoint, from *kel.Identity, plaintext []byte, now int64) *packet.Packet {
	to.t.Helper()
	p, err := packet.Seal(from, to.id.ACEID(), suite.NewMessageID(), now, plaintext, to.publishedKey())
	if err != nil {
		to.t.Fatal(err)
	}
	return p
}

// sealMessage seals a message with a given ID from another endpoint to this one.
func (e *endpoint) sealMessage(from *endpoint, messageID string, m delivery.Message) *packet.Packet {
	e.t.Helper()
	installed, ok := e.set.Type(m.Type)
	if !ok {
		e.t.Fatalf("%s is not installed", m.Type)
	}
	c := packet.Content{Type: m.Type, SchemaDigest: installed.Digest, ThreadID: m.ThreadID, Body: m.Body, Prekey: newPrekey()}
	plaintext, err := c.Canonical()
	if err != nil {
		e.t.Fatal(err)
	}
	p, err := packet.Seal(from.id, e.id.ACEID(), messageID, e.world.now, plaintext, e.publishedKey())
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// publishedKey is the published prekey of an endpoint.
func (e *endpoint) publishedKey() (key *suite.EncapsulationKey) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		p, err := delivery.LoadPublished(tx)
		if err != nil {
			return err
		}
		defer delivery.DestroyPublished(p)
		key, err = suite.ParseEncapsulationKey(p.Current.PublicKey)
		return err
	})
	return key
}

// endpointNet is a world as one endpoint reaches it.
type endpointNet struct {
	*world
	self string
}

func (n *endpointNet) Lookup(_ context.Context, _, aceID string) (wire.Value, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	agent, ok := n.agents[aceID]
	if n.lookup != nil {
		return wire.Value{}, n.lookup
	}
	if !ok {
		return wire.Value{}, fault.New(fault.UnknownPeer, "unknown")
	}
	return agent, nil
}

func (n *endpointNet) Post(_ context.Context, _ string, raw, permit []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := packet.Decode(raw)
	if err != nil {
		return err
	}
	n.posted, n.permit = append(n.posted, p), append(n.permit, permit)
	if n.refuse != nil {
		return n.refuse
	}
	n.redeliver(p)
	return nil
}

func (n *endpointNet) Inbox(_ context.Context, since string, _ int64) ([]delivery.Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var page []delivery.Entry
	for _, e := range n.queues[n.self] {
		if since == "-" || wire.CompareStreamIDs(e.StreamID, since) > 0 {
			page = append(page, e)
		}
	}
	return page, nil
}

func (n *endpointNet) Ack(_ context.Context, through string, _ int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var kept []delivery.Entry
	for _, e := range n.queues[n.self] {
		if wire.CompareStreamIDs(e.StreamID, through) > 0 {
			kept = append(kept, e)
		}
	}
	n.queues[n.self] = kept
	return nil
}
