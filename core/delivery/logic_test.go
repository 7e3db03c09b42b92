package delivery_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

const logicDir = "../../testdata/vectors/logic/"

// runLogic runs the frozen cases and traces of one file. Every case and step has
// to be answered in full. A file without cases has no answer.
func runLogic(t *testing.T, file string, answer func(t *testing.T, r *wire.Reader) wire.Value, start starter) {
	t.Helper()
	data, err := os.ReadFile(logicDir + file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := wire.Parse(data, 64)
	if err != nil {
		t.Fatal(err)
	}
	top := wire.NewReader(doc, file)
	top.String("description")
	var cases []wire.Value
	if answer != nil {
		cases = top.Value("cases").Items()
	}
	traces := top.Value("traces").Items()
	if err := top.Close(); err != nil || (answer != nil && len(cases) == 0) || len(traces) == 0 {
		t.Fatalf("%d cases, %d traces: %v", len(cases), len(traces), err)
	}
	for _, c := range cases {
		r := wire.NewReader(c, "case")
		r.Optional("ambiguous")
		want, input := r.Value("expect"), r.Object("input")
		t.Run(r.String("name"), func(t *testing.T) {
			compare(t, answer(t, input), want, r, input)
		})
	}
	for _, c := range traces {
		r := wire.NewReader(c, "trace")
		r.Optional("ambiguous")
		t.Run(r.String("name"), func(t *testing.T) {
			t.Parallel() // a trace mostly waits for its store
			runTrace(t, r, start)
		})
	}
}

// step answers one step of a trace.
type step func(t *testing.T, op string, r *wire.Reader) wire.Value

// starter begins a trace. It is given the steps to make only what they need.
type starter func(t *testing.T, config *wire.Reader, steps []wire.Value) step

func runTrace(t *testing.T, r *wire.Reader, start starter) {
	config := r.Object("config")
	steps := r.Value("steps").Items()
	run := start(t, config, steps)
	if err := errors.Join(config.Close(), r.Close()); err != nil || len(steps) == 0 {
		t.Fatalf("%d steps: %v", len(steps), err)
	}
	for i, item := range steps {
		s := wire.NewReader(item, fmt.Sprintf("steps[%d]", i))
		want := s.Value("expect")
		compare(t, run(t, s.String("op"), s), want, s)
	}
}

func compare(t *testing.T, got, want wire.Value, readers ...*wire.Reader) {
	t.Helper()
	for _, r := range readers {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !got.Equal(want) {
		t.Fatalf("got  %s\nwant %s", got.Canonical(), want.Canonical())
	}
}

// text is a string, or null for "".
func text(s string) wire.Value {
	if s == "" {
		return wire.Value{}
	}
	return wire.NewString(s)
}

// TestLogicAckPrefix covers the acknowledgement rules of 06#receive-pipeline.
func TestLogicAckPrefix(t *testing.T) {
	runLogic(t, "ack-prefix.json", streamIDAnswer, func(t *testing.T, _ *wire.Reader, _ []wire.Value) step {
		e := newWorld().newEndpoint(t, "", nil)
		return func(t *testing.T, op string, r *wire.Reader) wire.Value { return ackStep(t, e, op, r) }
	})
}

func streamIDAnswer(t *testing.T, r *wire.Reader) wire.Value {
	switch kind := r.String("kind"); kind {
	case "stream_id":
		return wire.NewObject(wire.M("valid", wire.NewBool(wire.IsStreamID(r.String("id")))))
	case "stream_id_order":
		return wire.NewObject(wire.M("order", wire.NewInt(int64(wire.CompareStreamIDs(r.String("a"), r.String("b"))))))
	default:
		t.Fatalf("unknown kind %q", kind)
		return wire.Value{}
	}
}

func ackStep(t *testing.T, e *endpoint, op string, r *wire.Reader) wire.Value {
	if op != "fetch" {
		t.Fatalf("unknown op %q", op)
	}
	outcomes := map[string]delivery.Outcome{
		"delivered": delivery.Delivered, "duplicate": delivery.Duplicate, "drop": delivery.Dropped, "reject": delivery.Rejected,
		"retry": delivery.Retry, "hold": delivery.Hold,
	}
	var ids []string
	stated := map[string]delivery.Outcome{}
	for i, item := range r.Array("entries", 0, 1000) {
		entry := r.Element("entries", i, item)
		id := entry.String("id")
		outcome, ok := outcomes[entry.String("outcome")]
		if err := entry.Close(); err != nil || !ok {
			t.Fatalf("entry %d: %v", i, err)
		}
		ids, stated[id] = append(ids, id), outcome
	}
	var processed []wire.Value
	before := quarantined(e)
	page, err := e.node.TestOnlySettle(t.Context(), ids, start, func(id string) delivery.Outcome {
		processed = append(processed, wire.NewString(id))
		return stated[id]
	})
	if err != nil {
		t.Fatal(err)
	}
	var given []wire.Value
	for _, id := range quarantined(e)[len(before):] {
		given = append(given, wire.NewString(id))
	}
	return wire.NewObject(
		wire.M("processed", wire.NewArray(processed...)), wire.M("through", text(page.Through)),
		wire.M("quarantined", wire.NewArray(given...)), wire.M("retry_counts", retryCounts(e)),
	)
}

func quarantined(e *endpoint) (ids []string) {
	e.view(func(tx *store.Tx) error {
		kept, err := tx.Quarantine()
		for _, q := range kept {
			ids = append(ids, q.StreamID)
		}
		return err
	})
	return ids
}

func retryCounts(e *endpoint) wire.Value {
	counts := []wire.Member{}
	e.view(func(tx *store.Tx) error {
		kept, err := tx.Retries()
		for id, n := range kept {
			counts = append(counts, wire.M(id, wire.NewInt(n)))
		}
		return err
	})
	return wire.NewObject(counts...)
}
