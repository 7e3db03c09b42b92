package interop

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// trace is a state machine under test: it answers one step of a trace.
type trace interface {
	step(t *testing.T, op string, r *wire.Reader) wire.Value
}

// runTraces runs every trace of a file of logic vectors, each on a machine that
// start makes from its config.
func runTraces(t *testing.T, file string, start func(t *testing.T, config *wire.Reader) trace) {
	doc := loadVectors(t, filepath.Join(vectorDir, "logic", file))
	traces := doc.member(t, "traces").Items()
	if len(traces) == 0 {
		t.Fatal("no traces")
	}
	for _, item := range traces {
		v := vector{item}
		name, _ := v.member(t, "name").AsString()
		t.Run(name, func(t *testing.T) {
			config := wire.NewReader(v.member(t, "config"), "config")
			machine := start(t, config)
			if err := config.Close(); err != nil {
				t.Fatal(err)
			}
			steps := v.member(t, "steps").Items()
			if len(steps) == 0 {
				t.Fatal("no steps")
			}
			for i, step := range steps {
				r := wire.NewReader(step, fmt.Sprintf("steps[%d]", i))
				want := r.Value("expect")
				got := machine.step(t, r.String("op"), r)
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				if !got.Equal(want) {
					t.Fatalf("step %d: got %s, want %s", i, got.Canonical(), want.Canonical())
				}
			}
		})
	}
}

// TestLogicPrekeys covers 04#prekey and 04#peer-prekeys.
func TestLogicPrekeys(t *testing.T) {
	runTraces(t, "prekeys.json", func(t *testing.T, config *wire.Reader) trace {
		names := &keyNames{ids: map[string]string{}, keys: map[string]prekey.Key{}}
		switch role := config.String("role"); role {
		case "issuer":
			return &issuerTrace{keyNames: names, peers: map[string]prekey.Issuer{}, count: map[string]int{}}
		case "holder":
			return &holderTrace{held: map[string]prekey.Held{}}
		case "published":
			current := names.named(config.String("current"))
			first, _ := prekey.Published{}.Rotate(current, 0)
			return &publishedTrace{keyNames: names, published: first}
		default:
			t.Fatalf("unknown role %q", role)
			return nil
		}
	})
}

// keyNames gives the keys of a trace their symbolic names.
type keyNames struct {
	ids  map[string]string // by ID
	keys map[string]prekey.Key
}

func (n *keyNames) set(name string, k prekey.Key) {
	n.ids[k.ID], n.keys[name] = name, k
}

// named returns the key of that name, made when it is first asked for.
func (n *keyNames) named(name string) prekey.Key {
	if _, ok := n.keys[name]; !ok {
		n.set(name, prekey.Generate())
	}
	return n.keys[name]
}

// id returns the ID of the key of that name, which need not exist.
func (n *keyNames) id(name string) string {
	if k, ok := n.keys[name]; ok {
		return k.ID
	}
	return suite.Hex256([]byte(name))
}

type issuerTrace struct {
	*keyNames
	peers map[string]prekey.Issuer
	count map[string]int
}

func (m *issuerTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	now := r.Int("now")
	var peer string
	var answer []wire.Member
	switch op {
	case "send":
		peer = r.String("to")
		next, carried, deleted := m.issuer(peer).Offer(now, now)
		if _, known := m.ids[carried.ID]; !known {
			m.count[peer]++
			m.set(fmt.Sprintf("%s#%d", peer, m.count[peer]), carried)
		}
		m.commit(next, deleted)
		answer = append(answer, str("prekey", m.ids[carried.ID]))
	case "open":
		peer = r.String("from")
		id, result := m.id(r.String("prekey")), "unknown_prekey"
		// Before pruning: an ended key must not open while it is still there.
		if m.findAny(id, peer, now) {
			result = "opened"
			m.commit(m.issuer(peer).Opened(id, now))
		}
		m.commit(m.issuer(peer).Prune(now))
		answer = append(answer, str("result", result))
	case "show":
		peer = r.String("peer")
		m.commit(m.issuer(peer).Prune(now))
	default:
		t.Fatalf("unknown op %q", op)
	}
	i := m.peers[peer]
	return facts(append(answer, m.offer("offered", i.Offered), m.offer("in_use", i.InUse))...)
}

// findAny asks every peer's issuer, as one that looks a key up by ID alone
// would: the sender has to matter all the same.
func (m *issuerTrace) findAny(id, from string, now int64) bool {
	found := false
	for _, i := range m.peers {
		_, ok := i.Find(id, from, now)
		found = found || ok
	}
	return found
}

func (m *issuerTrace) issuer(peer string) prekey.Issuer {
	if i, ok := m.peers[peer]; ok {
		return i
	}
	return prekey.Issuer{Peer: peer}
}

func (m *issuerTrace) commit(next prekey.Issuer, deleted []prekey.Key) {
	m.peers[next.Peer] = next
	for _, k := range deleted {
		k.Seed.Destroy()
	}
}

func (m *issuerTrace) offer(name string, o *prekey.Offer) wire.Member {
	if o == nil {
		return wire.M(name, wire.Value{})
	}
	return str(name, m.ids[o.ID])
}

type publishedTrace struct {
	*keyNames
	published prekey.Published
}

func (m *publishedTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	now, name := r.Int("now"), r.String("prekey")
	var answer wire.Member
	switch op {
	case "rotate":
		m.published, _ = m.published.Rotate(m.named(name), now)
		answer = str("current", m.ids[m.published.Current.ID])
	case "open":
		// Before pruning: an ended key must not open while it is still there.
		answer = str("result", "unknown_prekey")
		if _, ok := m.published.Find(m.id(name), now); ok {
			answer = str("result", "opened")
		}
		m.published, _ = m.published.Prune(now)
	default:
		t.Fatalf("unknown op %q", op)
	}
	retained := make([]wire.Value, 0, len(m.published.Superseded))
	for _, s := range m.published.Superseded {
		retained = append(retained, wire.NewString(m.ids[s.ID]))
	}
	return facts(answer, wire.M("retained", wire.NewArray(retained...)))
}

// holderTrace takes the names of the keys for their bytes.
type holderTrace struct {
	held map[string]prekey.Held
}

func (m *holderTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	switch op {
	case "record":
		return m.record(r)
	case "use":
		h := m.held[r.String("to")]
		if !h.Usable(r.Int("now"), r.String("pin")) {
			return facts(wire.M("prekey", wire.Value{}))
		}
		return facts(str("prekey", string(h.PublicKey)))
	case "block":
		peer := r.String("peer")
		m.held[peer] = prekey.Held{}
		return facts(m.show(peer))
	case "rejected_unknown_prekey":
		peer := r.String("from")
		m.held[peer], _ = m.held[peer].Drop(suite.Hex256([]byte(r.String("prekey"))))
		return facts(m.show(peer))
	case "encapsulation_failed":
		peer := r.String("peer")
		m.held[peer], _ = m.held[peer].Drop(suite.Hex256([]byte(r.String("prekey"))))
		return facts(m.show(peer), str("attempt_uses", "published"))
	}
	t.Fatalf("unknown op %q", op)
	return wire.Value{}
}

func (m *holderTrace) record(r *wire.Reader) wire.Value {
	peer := r.String("from")
	c := prekey.Carried{Timestamp: r.Int("timestamp"), Contact: optionalBool(r, "contact")}
	if s, ok := r.Value("prekey").AsString(); ok {
		c.PublicKey = []byte(s)
	}
	c.Pin, _ = r.Value("pin").AsString()
	// How the packet ended does not matter.
	optionalBool(r, "duplicate")
	optionalString(r, "disposition")
	var recorded bool
	m.held[peer], recorded = m.held[peer].Record(c)
	return facts(boolean("recorded", recorded), m.show(peer))
}

func (m *holderTrace) show(peer string) wire.Member {
	h := m.held[peer]
	if h.None() {
		return wire.M("held", wire.Value{})
	}
	return wire.M("held", facts(str("prekey", string(h.PublicKey)), num("timestamp", h.Timestamp), str("pin", h.Pin)))
}

func optionalBool(r *wire.Reader, name string) bool {
	v, ok := r.Optional(name)
	if !ok {
		return false
	}
	b, isBool := v.AsBool()
	if !isBool {
		r.FailMember(name, "not a boolean")
	}
	return b
}
