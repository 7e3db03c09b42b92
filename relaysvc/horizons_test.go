package relaysvc_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// collect sweeps the store at the relay's time.
func (r *relay) collect() {
	r.t.Helper()
	must(r.t, r.server.Operator().Collect(context.Background()))
}

// look runs a query on the relay's file and scans its only row.
func (r *relay) look(query string, args []any, dest ...any) {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+r.path+"?mode=ro")
	must(r.t, err)
	defer db.Close()
	must(r.t, db.QueryRow(query, args...).Scan(dest...))
}

type horizonTrace struct {
	Name      string
	Ambiguous bool
	Config    struct{}
	Steps     []horizonStep
}

type horizonStep struct {
	Op        string
	Now       int64
	Timestamp int64
	Digest    string
	KEL       [][2]string
	Expect    struct {
		Result     string
		Status     int
		Registered bool
		KEL        []string
		Horizon    *struct {
			EpochStart [2]any `json:"epoch_start"`
			Last       [2]any
		}
		Barrier *int64
	}
}

// TestHorizonVectors runs the traces of horizons.json against a real relay and
// its store. Each trace is one identity with real keys.
func TestHorizonVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/logic/horizons.json")
	must(t, err)
	var file struct {
		Description string
		Traces      []horizonTrace
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	must(t, d.Decode(&file))
	r := start(t, nil)
	done, skipped := 0, 0
	for _, trace := range file.Traces {
		t.Run(trace.Name, func(t *testing.T) {
			h := newHorizonPlay(r)
			for i, step := range trace.Steps {
				if !h.possible(step) {
					skipped++
					continue
				}
				h.step(t, fmt.Sprintf("step %d", i), step)
				done++
			}
		})
	}
	// No two requests of one log and timestamp differ in their digest, and
	// another inception is another identity.
	if done < 200 || skipped != 4 {
		t.Fatalf("%d steps done, %d skipped", done, skipped)
	}
}

// horizonPlay is one identity with the logs that a trace gives it.
type horizonPlay struct {
	*relay
	logs      map[string]*kel.State        // by the symbols of their events
	symbols   map[string]string            // of real events, by their hash
	roots     map[string]*suite.SigningKey // by commitment
	signers   map[string]*suite.SigningKey // by the hash of the last event
	newest    *kel.State                   // of the last accepted registration
	inception string
}

func newHorizonPlay(r *relay) *horizonPlay {
	return &horizonPlay{
		relay: r, logs: map[string]*kel.State{}, symbols: map[string]string{},
		roots: map[string]*suite.SigningKey{}, signers: map[string]*suite.SigningKey{},
	}
}

func (h *horizonPlay) possible(s horizonStep) bool {
	if s.Op != "register" {
		return true
	}
	if h.inception == "" {
		h.inception = s.KEL[0][1]
	}
	return s.Digest == fmt.Sprintf("M(%d,%s)", s.Timestamp, s.KEL[len(s.KEL)-1][1]) && s.KEL[0][1] == h.inception
}

func (h *horizonPlay) step(t *testing.T, where string, s horizonStep) {
	t.Helper()
	var got answer
	switch s.Op {
	case "register":
		h.now.Store(s.Now)
		state := h.log(t, s.KEL)
		got = h.do(call{method: "POST", path: "/v1/register", body: h.request(t, state, s.Timestamp)})
		if got.status == 200 {
			h.newest = state
		}
	case "unregister":
		h.now.Store(s.Timestamp)
		got = h.unregister(t, s.Timestamp)
	case "delete_kel":
		h.now.Add(wire.OfflineWindowSeconds - 1)
		h.collect()
		h.stored(t, where+", a second before", s, true)
		h.now.Add(1)
		h.collect()
		h.stored(t, where, s, false)
		return
	default:
		t.Fatalf("%s: unknown operation %q", where, s.Op)
	}
	var v struct{ Status, Error string }
	must(t, json.Unmarshal(got.body, &v))
	result := v.Status + v.Error
	if s.Op == "unregister" && got.status == 200 {
		result = "ok"
	}
	if result != s.Expect.Result || got.status != s.Expect.Status {
		t.Fatalf("%s: got %d %s, want %s", where, got.status, got.body, s.Expect.Result)
	}
	if h.newest != nil {
		h.stored(t, where, s, s.Expect.KEL != nil)
	}
}

// stored compares what the relay keeps of the identity with what the step
// expects.
func (h *horizonPlay) stored(t *testing.T, where string, s horizonStep, kelKept bool) {
	t.Helper()
	var registered bool
	var barrier sql.NullInt64
	var end, epoch string
	var endSeq, epochSeq int64
	var log []byte
	h.look(`
SELECT registered, barrier, kel_end, end_seq, epoch_hash, epoch_seq, (SELECT log FROM kels WHERE identity = identities.id)
FROM identities WHERE ace_id = ?`, []any{h.newest.ACEID()}, &registered, &barrier, &end, &endSeq, &epoch, &epochSeq, &log)
	if registered != s.Expect.Registered || (log != nil) != kelKept {
		t.Fatalf("%s: registered %v, a kel of %d bytes", where, registered, len(log))
	}
	if barrier.Valid != (s.Expect.Barrier != nil) || barrier.Valid && barrier.Int64 != *s.Expect.Barrier {
		t.Fatalf("%s: barrier %v", where, barrier)
	}
	if s.Expect.KEL != nil && (int(endSeq) != len(s.Expect.KEL)-1 || h.symbols[end] != s.Expect.KEL[endSeq]) {
		t.Fatalf("%s: the kel ends in %d %s, want %v", where, endSeq, h.symbols[end], s.Expect.KEL)
	}
	if x := s.Expect.Horizon; x != nil {
		got := fmt.Sprint([2]any{epochSeq, h.symbols[epoch]}, [2]any{endSeq, h.symbols[end]})
		if want := fmt.Sprint(x.EpochStart, x.Last); got != want {
			t.Fatalf("%s: horizon %s, want %s", where, got, want)
		}
	}
}

func (h *horizonPlay) unregister(t *testing.T, timestamp int64) answer {
	t.Helper()
	state := h.newest
	if state == nil {
		state = h.log(t, [][2]string{{"icp", "i"}, {"dlg", "d"}})
	}
	id := kel.NewIdentity(state, h.signers[state.LastHash()])
	headers, err := relayapi.SignHeaders(id, kel.ActionUnregister, h.url, suite.NewNonce(), nil, timestamp)
	must(t, err)
	header := map[string][]string{}
	headers.Apply(header)
	return h.do(call{method: "POST", path: "/v1/unregister", header: header})
}

// log returns the log whose events have the given types and symbols.
func (h *horizonPlay) log(t *testing.T, events [][2]string) *kel.State {
	t.Helper()
	key := fmt.Sprint(events)
	if h.logs[key] != nil || len(events) == 0 {
		return h.logs[key]
	}
	before := h.log(t, events[:len(events)-1])
	last := events[len(events)-1]
	const ts = epoch - 1000
	var state *kel.State
	var err error
	switch last[0] {
	case kel.Inception:
		root := newKey()
		h.commit(root) // for the delegations that it signs
		state, err = kel.Incept(root, h.commit(newKey()), ts)
	case kel.Rotation:
		state, err = before.Rotate(h.roots[before.Next()], h.commit(newKey()), ts)
	case kel.Delegation:
		signer := newKey()
		root := h.roots[kel.Commitment(wire.SchemeMLDSA65, before.Root())]
		if state, err = before.Delegate(root, signer.PublicKey(), ts, 0); err == nil {
			h.signers[state.LastHash()] = signer
		}
	}
	must(t, err)
	h.logs[key], h.symbols[state.LastHash()] = state, last[1]
	return state
}

// commit returns the commitment to a root and remembers whose it is.
func (h *horizonPlay) commit(root *suite.SigningKey) string {
	c := commitment(root)
	h.roots[c] = root
	return c
}

// request returns a registration. A log that delegates no signing key has
// nobody to sign it.
func (h *horizonPlay) request(t *testing.T, state *kel.State, timestamp int64) []byte {
	t.Helper()
	if state.Delegated() == nil {
		signature := wire.Signature{Value: make([]byte, wire.SignatureBytes)}
		return wire.NewObject(wire.M("aceId", wire.NewString(state.ACEID())), wire.M("kel", state.Value()),
			wire.M("timestamp", wire.NewInt(timestamp)), wire.M("audience", wire.NewString(h.url)),
			wire.M("signature", signature.Object())).Canonical()
	}
	r, err := relayapi.BuildRegistration(kel.NewIdentity(state, h.signers[state.LastHash()]), h.url, timestamp)
	must(t, err)
	return r.Raw
}

// TestBoundsOfDocumentsOutliveThem: the newest issuedAt of a KEL bounds what is
// published under it after unregister, and after the KEL is deleted, for the
// horizon holds it (07#registration). A document of an earlier KEL bounds
// nothing.
func TestBoundsOfDocumentsOutliveThem(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	newest := a.card(descriptor.CardRecord{}, epoch+200).Raw()
	older := a.card(descriptor.CardRecord{}, epoch+198).Raw()
	other := a.card(descriptor.CardRecord{Contact: descriptor.ContactClosed}, epoch+200).Raw()
	r.expect("ok", a.post("/v1/card", newest))
	r.expect("ok", a.post("/v1/descriptor", a.descriptorAt(epoch+200, r.url).Raw()))
	bounded := func() {
		t.Helper()
		r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/card/" + a.aceID()}))
		r.expect("stale_descriptor", a.post("/v1/card", older))
		r.expect("stale_descriptor", a.post("/v1/card", other))
		r.expect("ok", a.post("/v1/card", newest))
	}
	r.expect("ok", a.unregister(epoch+1))
	r.expect("ok", a.register(epoch+2))
	bounded()
	r.expect("stale_descriptor", a.post("/v1/descriptor", a.descriptorAt(epoch+100, r.url).Raw()))

	r.expect("ok", a.unregister(epoch+3))
	r.now.Add(wire.OfflineWindowSeconds)
	r.collect()
	r.expect("not_registered", a.inbox())
	r.expect("ok", a.register(r.now.Load()))
	bounded()
	var issuedAt int64
	r.look("SELECT issued_at FROM descriptors", nil, &issuedAt)
	if issuedAt != epoch+201 {
		t.Fatalf("the newest descriptor was issued at %d", issuedAt)
	}

	a.delegate(epoch)
	r.expect("ok", a.register(r.now.Load()+1))
	r.now.Store(epoch)
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{}, -1).Raw()))
}

// TestHorizonHasAFixedSize: whatever an identity stored, what is left of it is
// the same and stays charged to the network that it registered from.
func TestHorizonHasAFixedSize(t *testing.T) {
	r := start(t, nil)
	var left []int64
	for i := range 2 {
		a := r.newAgent()
		for range 3 * i {
			a.delegate(epoch - 500)
		}
		network := fmt.Sprintf("198.51.%d.1", 100+i)
		r.expect("ok", r.do(call{method: "POST", path: "/v1/register", body: a.registration(epoch), network: network}))
		r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
		r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Listed: true, Card: descriptor.Card{Description: strings.Repeat("x", 200*i)}}, -1).Raw()))
		r.expect("ok", a.unregister(epoch+1))
		r.now.Store(epoch + wire.OfflineWindowSeconds)
		r.collect()
		r.now.Store(epoch)
		var stored, size int64
		r.look("SELECT stored FROM networks WHERE network = ?", []any{fmt.Sprintf("198.51.%d.0/24", 100+i)}, &stored)
		r.look(`
SELECT length(i.digest) + length(i.kel_end) + length(i.epoch_hash) + length(d.claims) + length(c.claims) + length(c.home) + length(i.network)
FROM identities i JOIN descriptors d ON d.identity = i.id JOIN cards c ON c.identity = i.id WHERE i.ace_id = ?`, []any{a.aceID()}, &size)
		left = append(left, stored, size)
	}
	if left[0] != left[2] || left[1] != left[3] || left[0] == 0 {
		t.Fatalf("charged and left: %v", left)
	}
}
