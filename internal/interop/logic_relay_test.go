package interop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const relayNow = 1760140800

// caseAnswer answers one case of a kind of logic vectors.
type caseAnswer func(t *testing.T, r *wire.Reader) wire.Value

// runCases runs the cases of a file of logic vectors, each by the answer of its
// kind. A nil answer marks a kind that another test runs.
func runCases(t *testing.T, file string, answers map[string]caseAnswer) {
	doc := loadVectors(t, filepath.Join(vectorDir, "logic", file))
	ran := map[string]bool{}
	for _, item := range doc.member(t, "cases").Items() {
		c := vector{item}
		name, _ := c.member(t, "name").AsString()
		r := wire.NewReader(c.member(t, "input"), "input")
		kind := r.String("kind")
		answer, known := answers[kind]
		if !known {
			t.Fatalf("%s: unknown kind %q", name, kind)
		}
		ran[kind] = true
		if answer == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := answer(t, r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if want := c.member(t, "expect"); !got.Equal(want) {
				t.Errorf("got %s, want %s", got.Canonical(), want.Canonical())
			}
		})
	}
	for kind := range answers {
		if !ran[kind] {
			t.Errorf("no case of kind %q", kind)
		}
	}
}

// TestLogicRelayNetworks covers 07#client-networks and the blocked addresses of
// 07#client-rules.
func TestLogicRelayNetworks(t *testing.T) {
	runCases(t, "networks.json", map[string]caseAnswer{
		"client_network": func(t *testing.T, r *wire.Reader) wire.Value {
			addr, err := netip.ParseAddr(r.String("address"))
			if err != nil {
				t.Fatal(err)
			}
			return facts(str("network", relayapi.ClientNetwork(addr).String()))
		},
		"blocked": func(_ *testing.T, r *wire.Reader) wire.Value {
			policy := wire.Production
			if optionalBool(r, "allow_loopback") {
				policy = wire.Development
			}
			return facts(boolean("blocked", relayapi.BlockedText(r.String("address"), policy)))
		},
	})
}

// TestLogicRelayHandles covers the relay's rules for handles
// (07#descriptors-and-cards) and their grammar (02#identifiers). TestLogicHandles
// runs the client's.
func TestLogicRelayHandles(t *testing.T) {
	runCases(t, "handles.json", map[string]caseAnswer{
		"address": nil,
		"resolve": nil,
		"grammar": func(_ *testing.T, r *wire.Reader) wire.Value {
			return facts(boolean("valid", wire.IsHandle(r.String("handle"))))
		},
		"skeleton": func(_ *testing.T, r *wire.Reader) wire.Value {
			return facts(str("skeleton", relayapi.Skeleton(r.String("handle"))))
		},
		"same_skeleton": func(_ *testing.T, r *wire.Reader) wire.Value {
			a, b := r.String("a"), r.String("b")
			return facts(boolean("conflict", relayapi.Skeleton(a) == relayapi.Skeleton(b)))
		},
		"claim": claimAnswer,
	})
}

func claimAnswer(_ *testing.T, r *wire.Reader) wire.Value {
	record := r.Object("record")
	id := record.String("aceId")
	claim := relayapi.Claim{
		Relay: r.String("relay"), InWindow: int(r.Int("claims_in_window")),
		Home: record.String("home"), Handle: optionalString(record, "handle"),
	}
	_ = record.Close() // the error is r's as well
	for i, item := range r.Array("bound", 0, 16) {
		b := r.Element("bound", i, item)
		handle := b.String("handle")
		if b.String("aceId") == id {
			claim.Held = handle
		}
		claim.Taken = claim.Taken || relayapi.Skeleton(handle) == relayapi.Skeleton(claim.Handle)
		_ = b.Close() // this one too
	}
	for _, item := range r.Array("reserved", 0, 16) {
		handle, _ := item.AsString()
		claim.Taken = claim.Taken || relayapi.Skeleton(handle) == relayapi.Skeleton(claim.Handle)
	}
	outcome, err := claim.Decide()
	if err != nil {
		return facts(str("result", string(fault.CodeOf(err))))
	}
	return facts(str("result", string(outcome)))
}

// TestLogicRelayErrors covers the responses of 07#client-rules.
func TestLogicRelayErrors(t *testing.T) {
	id := relayIdentity(t)
	runCases(t, "relay-errors.json", map[string]caseAnswer{
		"map":      mapAnswer,
		"exchange": func(t *testing.T, r *wire.Reader) wire.Value { return exchangeAnswer(t, r, id) },
	})
}

func mapAnswer(t *testing.T, r *wire.Reader) wire.Value {
	body, _ := r.Value("body").AsString()
	header := optionalString(r, "retry_after")
	err := relayclient.ResponseError(int(r.Int("status")), []byte(body), header)

	// The error holds "" and 0 for none, which the vectors tell from a present
	// empty error and a Retry-After of 0.
	var remote, delay wire.Value
	if text, ok := relayapi.ParseError([]byte(body)); ok {
		remote = wire.NewString(err.Remote)
		if text != err.Remote {
			t.Errorf("the error keeps %q of %q", err.Remote, text)
		}
	}
	if err.RetryAfter != 0 || header == "0" && err.Code.Category() == fault.Transient {
		delay = wire.NewInt(err.RetryAfter)
	}
	return facts(str("code", string(err.Code)), boolean("retryable", err.Code.Retryable()), num("status", int64(err.Status)),
		wire.M("relay_error", remote), wire.M("retry_after", delay))
}

// exchangeAnswer makes one authenticated request to a relay that gives the
// responses of the case in order.
func exchangeAnswer(t *testing.T, r *wire.Reader, id *kel.Identity) wire.Value {
	responses := r.Array("responses", 1, 16)
	requests, nonces := 0, map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		response := responses[requests]
		requests++
		nonces[req.Header.Get("X-ACE-Nonce")] = true
		status, _ := response.Get("status")
		code, _ := status.AsInt()
		body, _ := response.Get("body")
		text, ok := body.AsString()
		if !ok && code == http.StatusOK {
			text = string(relayapi.OK()) // the vectors leave out the body of a success
		}
		w.Header().Set("Content-Type", relayapi.MediaJSON)
		w.WriteHeader(int(code))
		io.WriteString(w, text)
	}))
	defer server.Close()
	client := relayclient.New(relayclient.Config{Identity: id, URLs: wire.Development})
	defer client.Close()
	result := "ok"
	if err := client.Ack(t.Context(), server.URL, "1-0", relayNow); err != nil {
		result = string(fault.CodeOf(err))
	}
	return facts(num("requests", int64(requests)), num("distinct_nonces", int64(len(nonces))), str("result", result))
}

func relayIdentity(t *testing.T) *kel.Identity {
	t.Helper()
	root, signing := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	next := suite.NewSigningKey(suite.NewSeed())
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), relayNow-1000)
	if err != nil {
		t.Fatal(err)
	}
	if state, err = state.Delegate(root, signing.PublicKey(), relayNow-1000, 0); err != nil {
		t.Fatal(err)
	}
	return kel.NewIdentity(state, signing)
}

// TestLogicRelayStream covers the parsing of streams (07#client-rules).
func TestLogicRelayStream(t *testing.T) {
	runCases(t, "sse.json", map[string]caseAnswer{"parse": parseAnswer})
}

func parseAnswer(t *testing.T, r *wire.Reader) wire.Value {
	var readers []io.Reader
	for _, chunk := range streamChunks(t, r) {
		readers = append(readers, &chunkReader{chunk})
	}
	events := relayclient.NewEventReader(iotest.DataErrReader(io.MultiReader(readers...)))
	list := []wire.Value{}
	for {
		e, err := events.Next()
		if err == io.EOF {
			return facts(wire.M("events", wire.NewArray(list...)))
		}
		if err != nil {
			t.Fatal(err)
		}
		var id wire.Value
		if e.HasID {
			id = wire.NewString(e.ID)
		}
		list = append(list, facts(str("event", e.Type), wire.M("id", id), str("data", string(e.Data))))
	}
}

func streamChunks(t *testing.T, r *wire.Reader) [][]byte {
	var chunks [][]byte
	decode := func(s string) ([]byte, error) { return []byte(s), nil }
	name := "chunks"
	if r.Has("chunks_b64") {
		name, decode = "chunks_b64", wire.DecodeBase64
	}
	for _, item := range r.Array(name, 0, 1000) {
		text, _ := item.AsString()
		chunk, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// chunkReader gives one chunk in one read.
type chunkReader struct{ rest []byte }

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// TestLogicRelayReconnect covers reconnecting (07#client-rules).
func TestLogicRelayReconnect(t *testing.T) {
	runTraces(t, "sse.json", func(_ *testing.T, config *wire.Reader) trace {
		since := optionalString(config, "since")
		if since == "" {
			since = relayapi.Dash
		}
		return &reconnectTrace{relayclient.NewReconnect(since)}
	})
}

type reconnectTrace struct{ reconnect *relayclient.Reconnect }

func (m *reconnectTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	if op != "connection" {
		t.Fatalf("unknown op %q", op)
	}
	end := relayclient.Ending{Clean: r.String("end") == "clean"}
	for i, item := range r.Array("events", 0, 16) {
		m.event(r.Element("events", i, item), &end)
	}
	header := optionalString(r, "retry_after")
	if status := int(r.Int("status")); status != http.StatusOK {
		end.RetryAfter = relayclient.ResponseError(status, nil, header).RetryAfter
	}
	delay, err := m.reconnect.Next(end)
	if err != nil {
		return facts(str("action", "end"), str("error", string(fault.CodeOf(err))))
	}
	return facts(str("action", "reconnect"), num("delay", delay), str("since", m.reconnect.Since()))
}

func (m *reconnectTrace) event(e *wire.Reader, end *relayclient.Ending) {
	id, processed := optionalString(e, "id"), true
	if v, ok := e.Optional("processed"); ok {
		processed, _ = v.AsBool()
	}
	switch event := e.Matching("event", "event type", isStreamEvent); event {
	case relayapi.EventDrain:
		end.Progress, end.Drain = true, true
	case relayapi.EventCatchup, relayapi.EventMessage:
		end.Progress = true
		if processed {
			m.reconnect.Processed(id)
		}
	}
	_ = e.Close() // the error is the step's as well
}

func isStreamEvent(s string) bool {
	return s == relayapi.EventConnected || s == relayapi.EventCatchup || s == relayapi.EventMessage || s == relayapi.EventDrain
}
