package delivery_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicOutbox covers 06#outbox-sender, the reply permit of
// 05#admission-recovery and the renewal of 05#delivery-permits, on real keys, a
// real store and the receive pipeline.
func TestLogicOutbox(t *testing.T) {
	runLogic(t, "outbox.json", outboxAnswer, func(t *testing.T, config *wire.Reader, steps []wire.Value) step {
		return newOutboxTrace(t, config, steps).step
	})
}

func outboxAnswer(t *testing.T, r *wire.Reader) wire.Value {
	switch kind := r.String("kind"); kind {
	case "retry_delay":
		return wire.NewObject(wire.M("delay", wire.NewInt(delivery.TestOnlyRetryDelay(int(r.Int("attempt"))))))
	case "admission_reply_permit":
		permit := "newest"
		if delivery.TestOnlyPermitDue(r.Int("remaining"), r.Bool("valid_under_current_kel")) {
			permit = "fresh"
		}
		return wire.NewObject(wire.M("permit", wire.NewString(permit)))
	case "receipt_renewal":
		due := delivery.TestOnlyPermitDue(r.Int("remaining"), r.Bool("valid_under_current_kel"))
		return wire.NewObject(wire.M("renewal", wire.NewBool(due)))
	case "receipt_body":
		_, err := delivery.DecodeReceipt(r.Value("body"))
		return wire.NewObject(wire.M("valid", wire.NewBool(err == nil)))
	default:
		t.Fatalf("unknown kind %q", kind)
		return wire.Value{}
	}
}

// outboxTrace is one message of bob's to alice. It is at the same time the
// network that bob reaches.
type outboxTrace struct {
	t        *testing.T
	to       string // alice's and the message's symbols
	symbol   string
	world    *world
	bob      *endpoint
	alice    *endpoint
	carol    *endpoint
	former   *kel.Identity // alice before her latest delegation
	keys     map[string]*suite.DecapsulationKey
	text     string // of the message
	sent     string // real ID of the message, "" before
	relays   []string
	results  map[string]error // by relay
	refresh  wire.Value       // what a lookup serves, null for a failure
	failure  error
	cancel   context.CancelFunc // not nil: Post ends the caller's context
	lookups  int
	tried    []wire.Value
	accepted string
	posted   *packet.Packet
}

func newOutboxTrace(t *testing.T, config *wire.Reader, steps []wire.Value) *outboxTrace {
	w := newWorld()
	w.now = 1_760_000_000 // before every trace
	m := &outboxTrace{t: t, to: config.String("to"), symbol: config.String("messageId"), world: w, keys: map[string]*suite.DecapsulationKey{}}
	m.bob, m.alice, m.carol = w.newEndpoint(t, "", nil), w.newIdentity(t), w.newIdentity(t)
	m.former = m.alice.id
	m.text = "hello"
	for _, s := range steps {
		if _, ok := s.Get("admission_fits"); ok {
			m.text = longText
		}
	}
	w.now++
	m.alice.delegate(m.alice.id.State())
	var err error
	m.bob.node, err = delivery.New(t.Context(), delivery.Config{
		Identity: m.bob.id, Store: m.bob.store, Net: m, Profiles: m.bob.set, Home: relay,
	}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	m.bob.update(func(tx *store.Tx) error {
		for _, e := range []*endpoint{m.alice, m.carol} {
			if err := tx.SetPin(e.id.ACEID(), store.Pin{KEL: e.id.State().Raw()}); err != nil {
				return err
			}
		}
		return tx.SetContact(store.Contact{Peer: m.carol.id.ACEID(), State: "admitted"})
	})
	return m
}

func (m *outboxTrace) Lookup(context.Context, string, string) (wire.Value, error) {
	m.lookups++
	return m.refresh, m.failure
}

func (m *outboxTrace) Post(ctx context.Context, relay string, raw, _ []byte) error {
	p, err := packet.Decode(raw)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.cancel != nil {
		m.cancel()
		return ctx.Err()
	}
	name := strings.TrimSuffix(strings.TrimPrefix(relay, "https://"), ".example")
	m.posted, m.tried = p, append(m.tried, wire.NewString(name))
	if m.results[name] == nil {
		m.accepted = name
	}
	return m.results[name]
}

func (m *outboxTrace) Inbox(context.Context, string, int64) ([]delivery.Entry, error) {
	return nil, nil
}
func (m *outboxTrace) Ack(context.Context, string, int64) error { return nil }

// key returns the prekey with the given symbol.
func (m *outboxTrace) key(symbol string) *suite.DecapsulationKey {
	if m.keys[symbol] == nil {
		m.keys[symbol] = suite.NewDecapsulationKey(suite.NewSeed())
	}
	return m.keys[symbol]
}

func (m *outboxTrace) prekeyID(symbol string) string {
	return packet.PrekeyID(m.key(symbol).PublicKey())
}

// agent builds a descriptor of alice's with the given prekey.
func (m *outboxTrace) agent(id *kel.Identity, prekey string, issued, lifetime int64) *descriptor.PublishedAgent {
	m.t.Helper()
	relays := m.relays
	if len(relays) == 0 {
		relays = []string{relay}
	}
	a, err := descriptor.Build(id, descriptor.Fields{ExpiresAt: issued + lifetime, Relays: relays, Prekey: m.key(prekey).PublicKey()},
		issued, -1, descriptor.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

func (m *outboxTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	now := r.Int("now")
	m.world.now = now
	m.lookups, m.tried, m.accepted, m.posted, m.cancel = 0, nil, "", nil, nil
	switch op {
	case "enqueue":
		return m.enqueue(r, now)
	case "attempt":
		return m.attempt(r, now)
	case "tick":
		m.expire(now)
		due := false
		if e, ok := m.entry(); ok {
			due = e.State == store.Pending && e.NextAttemptAt <= now
		}
		return m.common(wire.M("due", wire.NewBool(due)))
	case "receipt":
		return m.receipt(r, now)
	case "abandon":
		if _, err := m.bob.node.Abandon(t.Context(), m.sent, now); err != nil {
			t.Fatal(err)
		}
		return m.common()
	case "may_delete":
		m.expire(now)
		e, _ := m.entry()
		return wire.NewObject(wire.M("may_delete", wire.NewBool(delivery.MayDelete(e, now))))
	}
	t.Fatalf("unknown op %q", op)
	return wire.Value{}
}

func (m *outboxTrace) expire(now int64) {
	if err := m.bob.node.ExpireDue(m.t.Context(), now); err != nil {
		m.t.Fatal(err)
	}
}

func (m *outboxTrace) entry() (e store.OutboxEntry, ok bool) {
	m.bob.view(func(tx *store.Tx) (err error) {
		e, ok, err = tx.Outbox(m.sent)
		return err
	})
	return e, ok
}

// common adds the members with which nearly every step ends.
func (m *outboxTrace) common(members ...wire.Member) wire.Value {
	e, ok := m.entry()
	next := wire.Value{}
	if ok && e.State == store.Pending {
		next = wire.NewInt(e.NextAttemptAt)
	}
	return wire.NewObject(append(members, wire.M("status", text(e.State)), wire.M("attempts", wire.NewInt(int64(e.Attempts))), wire.M("next_due", next))...)
}

// holdPermit makes bob hold a permit of alice's, valid or expired.
func (m *outboxTrace) holdPermit(valid bool, now int64) {
	issued := now
	if !valid {
		issued = now - 100
	}
	permit, err := admission.IssuePermit(m.alice.id, m.bob.id.ACEID(), issued, 50)
	if err != nil {
		m.t.Fatal(err)
	}
	m.bob.update(func(tx *store.Tx) error {
		return tx.SetPermit(m.alice.id.ACEID(), store.PermitHeld, store.Permit{Raw: permit.Raw(), IssuedAt: permit.IssuedAt, ExpiresAt: permit.ExpiresAt})
	})
}

// serve sets what a lookup gives: a descriptor with the given prekey, or a code.
func (m *outboxTrace) serve(result, prekey string, now int64) {
	m.refresh, m.failure = wire.Value{}, nil
	if result != "ok" {
		m.failure = fault.New(fault.Code(result), "refused")
		return
	}
	m.refresh = m.agent(m.alice.id, prekey, now, 86400).Value()
}

// longText leaves room for an admission of ordinary size, and for none with a
// large descriptor. Canonical JSON writes each of its characters in six bytes.
var longText = strings.Repeat("\x01", (wire.MaxPlaintextBytes-50_000)/6)

func (m *outboxTrace) enqueue(r *wire.Reader, now int64) wire.Value {
	if r.Bool("descriptor_held") {
		expired := m.agent(m.former, "P0", now-200, 100)
		m.bob.update(func(tx *store.Tx) error { return tx.SetDescriptor(m.alice.id.ACEID(), expired.Raw()) })
	}
	m.serve(r.String("resolve"), "P1", now)
	m.holdPermit(r.Bool("permit_held"), now)
	e, err := m.bob.node.Enqueue(m.t.Context(), delivery.Message{
		To: m.alice.id.ACEID(), Type: profile.TextType, Body: textBody(m.text),
	}, now)
	result := "queued"
	if err != nil {
		result = string(fault.CodeOf(err))
	}
	m.sent = e.MessageID
	_, stored := m.entry()
	return wire.NewObject(wire.M("result", wire.NewString(result)), wire.M("stored", wire.NewBool(stored)))
}

func (m *outboxTrace) attempt(r *wire.Reader, now int64) wire.Value {
	m.readPost(r)
	m.readDescriptor(r.Object("descriptor"), now)
	m.readHeld(r, now)
	m.readState(r.String("peer_state"))
	m.holdPermit(r.Bool("permit_held"), now)
	m.publishOwn(r, now)
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	if v, ok := r.Optional("interrupted"); ok && v.Equal(wire.NewBool(true)) {
		m.cancel = cancel
	}
	before := m.held()
	_, err := m.bob.node.Attempt(ctx, m.sent, now)
	if m.cancel != nil {
		return m.common(wire.M("result", wire.NewString("interrupted")))
	}
	result, code := "accepted", ""
	if err != nil {
		result = "failed"
		if len(m.tried) == 0 {
			code = string(fault.CodeOf(err))
		}
	}
	prekey, kind, carries := m.opened()
	return m.common(
		wire.M("result", wire.NewString(result)), wire.M("code", text(code)), wire.M("prekey", text(prekey)), wire.M("prekey_kind", text(kind)),
		wire.M("refreshed", wire.NewBool(m.lookups > 0)), wire.M("admission", wire.NewBool(carries)), wire.M("tried", wire.NewArray(m.tried...)),
		wire.M("accepted_by", text(m.accepted)), wire.M("held_dropped", wire.NewBool(before && !m.held())),
	)
}

func (m *outboxTrace) readPost(r *wire.Reader) {
	m.relays, m.results = nil, map[string]error{}
	for i, item := range r.Array("post", 1, 4) {
		o := r.Element("post", i, item)
		name, result := o.String("relay"), o.String("result")
		if err := o.Close(); err != nil {
			m.t.Fatal(err)
		}
		m.relays = append(m.relays, "https://"+name+".example")
		if result != "ok" {
			m.results[name] = fault.New(fault.Code(result), "refused")
		}
	}
}

func (m *outboxTrace) readDescriptor(o *wire.Reader, now int64) {
	var cached *descriptor.PublishedAgent
	prekey := "P0" // a stale or expired descriptor need not say its prekey
	if v, ok := o.Optional("prekey"); ok {
		prekey, _ = v.AsString()
	}
	switch kind := o.String("cached"); kind {
	case "usable":
		cached = m.agent(m.alice.id, prekey, now-100, 86400)
	case "expired":
		cached = m.agent(m.alice.id, prekey, now-200, 100)
	case "stale":
		cached = m.agent(m.former, prekey, now-100, 86400)
	default:
		m.t.Fatalf("unknown descriptor %q", kind)
	}
	m.bob.update(func(tx *store.Tx) error { return tx.SetDescriptor(m.alice.id.ACEID(), cached.Raw()) })
	m.readRefresh(o.Object("refresh"), now)
	if err := o.Close(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *outboxTrace) readRefresh(o *wire.Reader, now int64) {
	prekey := ""
	if v, ok := o.Optional("prekey"); ok {
		prekey, _ = v.AsString()
	}
	m.serve(o.String("result"), prekey, now)
	if err := o.Close(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *outboxTrace) readHeld(r *wire.Reader, now int64) {
	if !r.Has("held_peer_prekey") {
		m.bob.update(func(tx *store.Tx) error { return tx.DropHeldPrekey(m.alice.id.ACEID()) })
		return
	}
	o := r.Object("held_peer_prekey")
	held := store.HeldPrekey{PublicKey: m.key(o.String("id")).PublicKey(), Timestamp: now - 10, Pin: "another"}
	if o.Bool("usable") {
		held.Pin = m.alice.id.State().LastHash()
	}
	if v, ok := o.Optional("encapsulates"); ok && v.Equal(wire.NewBool(false)) {
		for i := range held.PublicKey {
			held.PublicKey[i] = 0xff // no coefficient of ML-KEM
		}
	}
	if err := o.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.bob.update(func(tx *store.Tx) error { return tx.SetHeldPrekey(m.alice.id.ACEID(), held) })
}

func (m *outboxTrace) readState(state string) {
	m.bob.update(func(tx *store.Tx) error {
		if state == "stranger" {
			return tx.DeleteContact(m.alice.id.ACEID())
		}
		return tx.SetContact(store.Contact{Peer: m.alice.id.ACEID(), State: state})
	})
}

// publishOwn gives bob a descriptor that is unexpired, and small enough for the
// admission, unless the step says otherwise.
func (m *outboxTrace) publishOwn(r *wire.Reader, now int64) {
	flag := func(name string) bool {
		v, ok := r.Optional(name)
		return !ok || v.Equal(wire.NewBool(true))
	}
	f := descriptor.Fields{ExpiresAt: now + 1000, Relays: []string{relay}, Prekey: m.key("own").PublicKey()}
	issued := now
	if !flag("own_agent_unexpired") {
		issued, f.ExpiresAt = now-200, now-100
	}
	if !flag("admission_fits") {
		f.Profiles = []descriptor.Profile{{ID: "example:pad", Digest: strings.Repeat("0", 64)}}
		f.Ext = wire.NewObject(wire.M("example:pad", wire.NewObject(wire.M("pad", wire.NewString(strings.Repeat("x", 32_000))))))
	}
	a, err := descriptor.Build(m.bob.id, f, issued, -1, descriptor.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	m.bob.update(func(tx *store.Tx) error {
		return tx.SetOwn(store.OwnDescriptor, store.Document{IssuedAt: issued, Raw: a.Raw()})
	})
}

func (m *outboxTrace) held() (ok bool) {
	m.bob.view(func(tx *store.Tx) (err error) {
		_, ok, err = tx.HeldPrekey(m.alice.id.ACEID())
		return err
	})
	return ok
}

// opened opens the packet that was posted.
func (m *outboxTrace) opened() (prekey, kind string, carriesAdmission bool) {
	if m.posted == nil {
		return "", "", false
	}
	for symbol, key := range m.keys {
		if m.prekeyID(symbol) != m.posted.Prekey {
			continue
		}
		plaintext, err := m.posted.Open(key)
		if err != nil {
			m.t.Fatal(err)
		}
		content, err := packet.ParseContent(plaintext)
		if err != nil {
			m.t.Fatal(err)
		}
		kind = "published"
		if strings.HasPrefix(symbol, "K") {
			kind = "peer"
		}
		return symbol, kind, content.Admission != nil
	}
	m.t.Fatal("the packet uses a key that was never offered")
	return "", "", false
}

// receipt lets a real receipt go through bob's pipeline.
func (m *outboxTrace) receipt(r *wire.Reader, now int64) wire.Value {
	from := m.carol
	if r.String("from") == m.to {
		from = m.alice
	}
	body := delivery.ReceiptBody{MessageID: r.String("messageId"), Outcome: r.String("outcome")}
	if body.MessageID == m.symbol && m.sent != "" {
		body.MessageID = m.sent
	}
	if v, ok := r.Optional("code"); ok {
		body.Code, _ = v.AsString()
	}
	if v, ok := r.Optional("prekey"); ok {
		symbol, _ := v.AsString()
		body.Prekey = m.prekeyID(symbol)
	}
	m.relays = nil
	m.failure = fault.New(fault.RelayUnavailable, "not asked for")
	if r.Has("refresh") {
		m.readRefresh(r.Object("refresh"), now)
	}
	m.readHeldID(r, now)
	m.readState("admitted")
	earlier, applied := m.applied(body)
	m.takeReceipt(from, &body, now)
	later, appliedNow := m.applied(body)
	code := ""
	if later.State == store.Rejected && !applied && appliedNow {
		code = later.RemoteCode
	}
	return m.common(
		wire.M("applied", wire.NewBool(!applied && appliedNow)),
		wire.M("commit", wire.NewBool(earlier.State != store.Delivered && later.State == store.Delivered)),
		wire.M("refreshed", wire.NewBool(m.lookups > 0)),
		wire.M("held_dropped", wire.NewBool(r.Has("held_peer_prekey") && !m.held())),
		wire.M("code", text(code)),
	)
}

// readHeldID holds the key that a receipt step names. Its time is later than
// that of the receipt, whose own key would replace it otherwise.
func (m *outboxTrace) readHeldID(r *wire.Reader, now int64) {
	v, ok := r.Optional("held_peer_prekey")
	if !ok {
		return
	}
	symbol, _ := v.AsString()
	m.bob.update(func(tx *store.Tx) error {
		return tx.SetHeldPrekey(m.alice.id.ACEID(), store.HeldPrekey{
			PublicKey: m.key(symbol).PublicKey(), Timestamp: now + 1, Pin: m.alice.id.State().LastHash(),
		})
	})
}

func (m *outboxTrace) applied(b delivery.ReceiptBody) (e store.OutboxEntry, applied bool) {
	m.bob.view(func(tx *store.Tx) (err error) {
		if e, _, err = tx.Outbox(m.sent); err != nil {
			return err
		}
		applied, err = tx.ReceiptApplied(b.MessageID, b.Outcome, b.Prekey)
		return err
	})
	return e, applied
}

func (m *outboxTrace) takeReceipt(from *endpoint, body *delivery.ReceiptBody, now int64) {
	m.t.Helper()
	if r := m.bob.take(sealTo(m.bob, from.id, profile.ReceiptType, body.Value(), now)); r.Outcome != delivery.Delivered {
		m.t.Fatalf("the receipt ended as %+v", r)
	}
}
