package interop

import (
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicRelayHorizons covers 07#registration step 6 with real logs: each
// symbol of a trace names one real event.
func TestLogicRelayHorizons(t *testing.T) {
	logs := &symbolicLogs{
		states: map[string]*kel.State{}, symbols: map[string]string{},
		roots: map[string]*suite.SigningKey{}, signers: map[string]*suite.SigningKey{},
	}
	runTraces(t, "horizons.json", func(*testing.T, *wire.Reader) trace {
		return &horizonTrace{logs: logs, barrier: relayapi.NoBarrier}
	})
}

// symbolicLogs makes real logs of symbolic ones.
type symbolicLogs struct {
	states  map[string]*kel.State        // by the symbols of the log
	symbols map[string]string            // by hash of the real event
	roots   map[string]*suite.SigningKey // by commitment
	signers map[string]*suite.SigningKey // by hash of the last event
}

// log returns the log whose events have the given types and symbols.
func (l *symbolicLogs) log(t *testing.T, events []wire.Value) *kel.State {
	t.Helper()
	if len(events) == 0 {
		return nil
	}
	path := string(wire.NewArray(events...).Canonical())
	if s, ok := l.states[path]; ok {
		return s
	}
	last := events[len(events)-1].Items()
	kind, _ := last[0].AsString()
	symbol, _ := last[1].AsString()
	state, err := l.add(l.log(t, events[:len(events)-1]), kind)
	if err != nil {
		t.Fatal(err)
	}
	l.states[path], l.symbols[state.LastHash()] = state, symbol
	return state
}

func (l *symbolicLogs) add(s *kel.State, kind string) (*kel.State, error) {
	const ts = relayNow - 1000
	switch kind {
	case kel.Inception:
		root := l.roots[l.next()]
		return kel.Incept(root, l.next(), ts)
	case kel.Rotation:
		return s.Rotate(l.roots[s.Next()], l.next(), ts)
	case kel.Delegation:
		return l.delegate(s, ts)
	}
	return nil, fmt.Errorf("unknown event type %q", kind)
}

// next makes a root, which an event commits to and a later one reveals.
func (l *symbolicLogs) next() string {
	root := suite.NewSigningKey(suite.NewSeed())
	commitment := kel.Commitment(wire.SchemeMLDSA65, root.PublicKey())
	l.roots[commitment] = root
	return commitment
}

// delegate signs with the root of the current epoch.
func (l *symbolicLogs) delegate(s *kel.State, ts int64) (*kel.State, error) {
	root := l.roots[kel.Commitment(wire.SchemeMLDSA65, s.Root())]
	signer := suite.NewSigningKey(suite.NewSeed())
	state, err := s.Delegate(root, signer.PublicKey(), ts, 0)
	if err != nil {
		return nil, err
	}
	l.signers[state.LastHash()] = signer
	return state, nil
}

// request returns a registration with the given log and timestamp. A log that
// delegates no signing key has nobody to sign it.
func (l *symbolicLogs) request(s *kel.State, timestamp int64) ([]byte, error) {
	if s.Delegated() == nil {
		signature := wire.Signature{Value: make([]byte, wire.SignatureBytes)}
		return facts(str("aceId", s.ACEID()), wire.M("kel", s.Value()), num("timestamp", timestamp),
			str("audience", horizonRelay), wire.M("signature", signature.Object())).Canonical(), nil
	}
	r, err := relayapi.BuildRegistration(kel.NewIdentity(s, l.signers[s.LastHash()]), horizonRelay, timestamp)
	if err != nil {
		return nil, err
	}
	return r.Raw, nil
}

const horizonRelay = "https://relay.example"

// horizonTrace is one identity at a relay.
type horizonTrace struct {
	logs    *symbolicLogs
	record  *relayapi.Record
	horizon *relayapi.Horizon
	barrier int64
}

func (m *horizonTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	var result string
	var status wire.Member
	switch op {
	case "register":
		result, status = outcome(m.register(t, r))
	case "unregister":
		result, status = outcome(m.unregister(r.Int("timestamp")))
	case "delete_kel":
		h := relayapi.NewHorizon(m.record.State, m.barrier)
		m.horizon, m.record = &h, nil
		return m.show(str("result", "ok"))
	default:
		t.Fatalf("unknown op %q", op)
	}
	return m.show(str("result", result), status)
}

func outcome(result string, err error) (string, wire.Member) {
	if err != nil {
		code := fault.CodeOf(err)
		return string(code), num("status", int64(relayapi.HTTPStatus(code)))
	}
	return result, num("status", 200)
}

func (m *horizonTrace) register(t *testing.T, r *wire.Reader) (string, error) {
	state := m.logs.log(t, r.Array("kel", 1, 64))
	digest := r.String("digest")
	request, err := m.logs.request(state, r.Int("timestamp"))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := relayapi.VerifyRegistrationBytes(request, horizonRelay, r.Int("now"), relayapi.Options{})
	if err != nil {
		return "", err
	}
	// The symbol stands in: no real request of the same log and timestamp has
	// another digest, as one of them needs.
	reg.MDigest = digest
	status, err := reg.Against(m.record, m.horizon)
	if err != nil {
		return "", err
	}
	m.record = &relayapi.Record{
		State: reg.State, Timestamp: reg.Timestamp, MDigest: reg.MDigest, Registered: true, Barrier: m.barrier,
	}
	m.horizon = nil
	return string(status), nil
}

func (m *horizonTrace) unregister(timestamp int64) (string, error) {
	if m.record == nil || !m.record.Registered {
		return "", fault.New(fault.NotRegistered, "not registered") // 07#authentication comes first
	}
	if err := m.record.Unregister(timestamp); err != nil {
		return "", err
	}
	m.barrier = timestamp
	m.record = &relayapi.Record{State: m.record.State, Barrier: timestamp}
	return "ok", nil
}

// show states what the relay keeps after a step.
func (m *horizonTrace) show(members ...wire.Member) wire.Value {
	var log, horizon, barrier wire.Value
	if m.record != nil {
		var hashes []wire.Value
		for _, e := range m.record.State.Events() {
			hashes = append(hashes, wire.NewString(m.logs.symbols[e.Hash]))
		}
		log = wire.NewArray(hashes...)
	}
	if m.horizon != nil {
		horizon = facts(
			wire.M("epoch_start", m.event(m.horizon.EpochSeq, m.horizon.EpochHash)),
			wire.M("last", m.event(m.horizon.LastSeq, m.horizon.LastHash)))
	}
	if m.barrier != relayapi.NoBarrier {
		barrier = wire.NewInt(m.barrier)
	}
	return facts(append(members,
		boolean("registered", m.record != nil && m.record.Registered),
		wire.M("kel", log), wire.M("horizon", horizon), wire.M("barrier", barrier))...)
}

func (m *horizonTrace) event(seq int64, hash string) wire.Value {
	return wire.NewArray(wire.NewInt(seq), wire.NewString(m.logs.symbols[hash]))
}
