package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicBusyThread covers 08#sender-state-and-busy-threads with real packets,
// a real store and the whole pipeline.
func TestLogicBusyThread(t *testing.T) {
	runLogic(t, "busy-thread.json", nil, func(t *testing.T, config *wire.Reader, steps []wire.Value) step {
		return newBusyTrace(t, config, steps).step
	})
}

// busyTrace is one local agent with its peers. Identities and the messages that
// it sends have the names of the trace as symbols.
type busyTrace struct {
	*endpoint
	rules  *recorder
	peers  map[string]*endpoint
	symbol map[string]string // real ACE ID or message ID -> symbol
	real   map[string]string // symbol of a sent message -> real message ID
	shows  bool              // the state of threads
}

// recorder is a rule that notes what it commits and, scripted, refuses what a
// step says.
type recorder struct {
	profile.Rule
	types   []string
	refuse  fault.Code
	commits []string
}

func (r *recorder) Types() []string {
	if r.Rule != nil {
		return r.Rule.Types()
	}
	return r.types
}

func (r *recorder) Check(s profile.State, e profile.Event, body wire.Value) error {
	switch {
	case r.Rule != nil:
		return r.Rule.Check(s, e, body)
	case r.refuse != "":
		return fault.New(r.refuse, "the step says so")
	}
	return nil
}

func (r *recorder) Commit(s profile.State, e profile.Event, body wire.Value) error {
	r.commits = append(r.commits, string(e.Direction)+":"+e.MessageID)
	if r.Rule != nil {
		return r.Rule.Commit(s, e, body)
	}
	return nil
}

func newBusyTrace(t *testing.T, config *wire.Reader, steps []wire.Value) *busyTrace {
	w := newWorld()
	w.now = 1_760_100_000 // before every trace
	b := &busyTrace{peers: map[string]*endpoint{}, symbol: map[string]string{}, real: map[string]string{}, rules: &recorder{}}
	b.endpoint = w.newIdentity(t)
	b.symbol[b.id.ACEID()] = config.String("local")
	b.installRules(t, config)
	b.open()
	b.publish("open")
	for _, s := range steps {
		for _, member := range []string{"to", "from"} {
			if v, ok := s.Get(member); ok {
				name, _ := v.AsString()
				b.addPeer(name)
			}
		}
	}
	return b
}

func (b *busyTrace) installRules(t *testing.T, config *wire.Reader) {
	switch rule := config.String("rule"); rule {
	case "commerce":
		installOfficial(t, b.set, profile.CommerceID)
		b.rules.Rule, b.shows = commerce.Rule{}, true
	case "scripted":
		m, err := profile.ParseManifest([]byte(scripted))
		if err == nil {
			err = b.set.Install(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range config.Array("governed", 1, 8) {
			name, _ := v.AsString()
			b.rules.types = append(b.rules.types, name)
		}
	default:
		t.Fatalf("unknown rule %q", rule)
	}
	if err := b.set.Govern(b.rules); err != nil {
		t.Fatal(err)
	}
}

// scripted defines the types of the traces with a scripted rule.
var scripted = func() string {
	var messages []string
	for _, name := range []string{"g", "h", "u"} {
		messages = append(messages, fmt.Sprintf(`{"type":"example:%s:1","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}`, name))
	}
	return `{"id":"example:scripted:1","messages":[` + strings.Join(messages, ",") + `]}`
}()

func (b *busyTrace) addPeer(name string) {
	if b.peers[name] != nil {
		return
	}
	p := b.world.newEndpoint(b.t, "open", nil)
	befriend(p, b.endpoint)
	b.peers[name], b.symbol[p.id.ACEID()] = p, name
}

func (b *busyTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	b.world.now = r.Int("now")
	switch op {
	case "enqueue":
		return b.answer(b.enqueueOne(r), "")
	case "receive":
		return b.answer(b.receiveOne(r))
	case "receipt":
		return b.answer(b.receiptOne(r), "")
	case "expire":
		e := b.entry(b.real[r.String("messageId")])
		e.Attempts, e.FirstAttemptAt = 1, b.world.now-wire.OfflineWindowSeconds
		b.update(func(tx *store.Tx) error { return tx.SaveOutbox(e) })
		if err := b.node.ExpireDue(t.Context(), b.world.now); err != nil {
			t.Fatal(err)
		}
		return b.answer(b.entry(e.MessageID).State, "")
	case "abandon":
		e, err := b.node.Abandon(t.Context(), b.real[r.String("messageId")], b.world.now)
		if err != nil {
			t.Fatal(err)
		}
		return b.answer(e.State, "")
	}
	t.Fatalf("unknown op %q", op)
	return wire.Value{}
}

// message reads what enqueue and receive have in common.
func (b *busyTrace) message(r *wire.Reader) (m delivery.Message) {
	m.Type, m.Body = r.String("type"), wire.NewObject()
	if r.Has("threadId") {
		m.ThreadID = r.String("threadId")
	}
	if v, ok := r.Optional("body"); ok {
		m.Body = b.translated(v)
	}
	b.rules.refuse = ""
	if v, ok := r.Optional("check"); ok {
		code, _ := v.AsString()
		b.rules.refuse = fault.Code(code)
	}
	return m
}

// translated puts real message IDs for the symbols in a body.
func (b *busyTrace) translated(body wire.Value) wire.Value {
	for _, m := range body.Members() {
		if s, ok := m.Value.AsString(); ok && b.real[s] != "" {
			body = body.With(m.Key, wire.NewString(b.real[s]))
		}
	}
	return body
}

func (b *busyTrace) enqueueOne(r *wire.Reader) string {
	m := b.message(r)
	m.To = b.peers[r.String("to")].id.ACEID()
	symbol := r.String("messageId")
	e, err := b.node.Enqueue(b.t.Context(), m, b.world.now)
	if err != nil {
		return string(fault.CodeOf(err))
	}
	b.real[symbol], b.symbol[e.MessageID] = e.MessageID, symbol
	return "queued"
}

func (b *busyTrace) receiveOne(r *wire.Reader) (outcome, code string) {
	m, from := b.message(r), b.peers[r.String("from")]
	result := b.take(b.sealMessage(from, r.String("messageId"), m))
	return string(result.Outcome), string(result.Code)
}

func (b *busyTrace) receiptOne(r *wire.Reader) string {
	from, id := b.peers[r.String("from")], r.String("messageId")
	if b.real[id] != "" {
		id = b.real[id]
	}
	body := delivery.ReceiptBody{MessageID: id, Outcome: r.String("outcome")}
	if r.Has("code") {
		body.Code = r.String("code")
	}
	keeps := r.Has("keeps_retrying") && r.Bool("keeps_retrying")
	if keeps {
		body.Prekey = b.lostKey(from, id)
	}
	before := b.wasApplied(body)
	result := b.take(sealTo(b.endpoint, from.id, profile.ReceiptType, body.Value(), b.world.now))
	switch {
	case result.Outcome != delivery.Delivered:
		b.t.Fatalf("the receipt ended as %+v", result)
	case result.Receipt != nil:
		return result.Receipt.Body.Outcome
	}
	if b.wasApplied(body) && !before {
		return "retrying"
	}
	return "ignored"
}

func (b *busyTrace) wasApplied(body delivery.ReceiptBody) (applied bool) {
	b.view(func(tx *store.Tx) (err error) {
		applied, err = tx.ReceiptApplied(body.MessageID, body.Outcome, body.Prekey)
		return err
	})
	return applied
}

// lostKey makes the first attempt of a message and returns the prekey it used,
// which the peer then holds no longer.
func (b *busyTrace) lostKey(from *endpoint, messageID string) string {
	b.attempt(messageID)
	from.publish("open")
	return b.entry(messageID).Prekey
}

// answer is what a step came to, with the state after it.
func (b *busyTrace) answer(result, code string) wire.Value {
	v := wire.NewObject(wire.M("result", wire.NewString(result)), wire.M("busy", b.busy()),
		wire.M("outbox", b.outbox()), wire.M("commits", b.commitList()))
	if code != "" {
		v = v.With("code", wire.NewString(code))
	}
	if b.shows {
		v = v.With("threads", b.threads())
	}
	return v
}

// busy lists the threads of the Outbox that are.
func (b *busyTrace) busy() wire.Value {
	var found [][2]string
	b.view(func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		for _, e := range entries {
			pair := [2]string{b.symbol[e.Peer], e.ThreadID}
			pending, err := b.node.PendingOn(tx, e.Peer, e.ThreadID, b.world.now)
			if err != nil {
				return err
			}
			if pending != "" && !slices.Contains(found, pair) {
				found = append(found, pair)
			}
		}
		return err
	})
	slices.SortFunc(found, func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
	list := []wire.Value{}
	for _, pair := range found {
		list = append(list, wire.NewArray(wire.NewString(pair[0]), wire.NewString(pair[1])))
	}
	return wire.NewArray(list...)
}

func (b *busyTrace) outbox() wire.Value {
	members := []wire.Member{}
	b.view(func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		for _, e := range entries {
			members = append(members, wire.M(b.symbol[e.MessageID], wire.NewString(e.State)))
		}
		return err
	})
	return wire.NewObject(members...)
}

func (b *busyTrace) commitList() wire.Value {
	list := []wire.Value{}
	for _, c := range b.rules.commits {
		direction, id, _ := strings.Cut(c, ":")
		list = append(list, wire.NewString(direction+":"+b.named(id)))
	}
	return wire.NewArray(list...)
}

func (b *busyTrace) named(messageID string) string {
	if s, ok := b.symbol[messageID]; ok {
		return s
	}
	return messageID
}

func (b *busyTrace) threads() wire.Value {
	byPeer := wire.NewObject()
	b.view(func(tx *store.Tx) error {
		all, err := tx.Threads(profile.CommerceID, "")
		if err != nil {
			return err
		}
		for _, row := range all {
			thread, err := delivery.Threads(tx, profile.CommerceID, b.id.ACEID()).Thread(row.Peer, row.ThreadID)
			if err != nil {
				return err
			}
			of, ok := byPeer.Get(b.symbol[row.Peer])
			if !ok {
				of = wire.NewObject()
			}
			byPeer = byPeer.With(b.symbol[row.Peer], of.With(row.ThreadID, wire.NewObject(
				wire.M("state", wire.NewString(thread.State)), wire.M("head", wire.NewString(b.named(thread.Head.MessageID))),
			)))
		}
		return nil
	})
	return byPeer
}
