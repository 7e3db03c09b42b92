package interop

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicSeenStore covers 06#deduplication on a real store file.
func TestLogicSeenStore(t *testing.T) {
	runTraces(t, "seen-store.json", func(t *testing.T, config *wire.Reader) trace {
		s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		m := &seenTrace{store: s, seen: delivery.SeenStore{Capacity: config.Int("C")}}
		config.Int("Q") // always max(1, floor(C / 16))
		created := config.Int("created_at")
		m.update(t, func(tx *store.Tx) error { return m.seen.Start(tx, created) })
		return m
	})
}

type seenTrace struct {
	store *store.Store
	seen  delivery.SeenStore
}

func (m *seenTrace) update(t *testing.T, f func(*store.Tx) error) {
	t.Helper()
	if err := m.store.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func (m *seenTrace) step(t *testing.T, op string, r *wire.Reader) (state wire.Value) {
	now := r.Int("now")
	e := store.Seen{Timestamp: r.Int("timestamp"), Peer: r.String("from"), MessageID: r.String("messageId")}
	if op != "packet" && op != "judge" {
		t.Fatalf("unknown op %q", op)
	}
	m.update(t, func(tx *store.Tx) error {
		verdict, err := m.seen.Judge(tx, e)
		if err == nil && op == "packet" && verdict == delivery.VerdictNew {
			err = m.seen.Commit(tx, e, now)
		}
		if err != nil {
			return err
		}
		state, err = seenState(tx, verdict)
		return err
	})
	return state
}

func seenState(tx *store.Tx, verdict delivery.Verdict) (wire.Value, error) {
	h, _, err := tx.SeenHorizon()
	if err != nil {
		return wire.Value{}, err
	}
	horizons, err := tx.SenderHorizons(-1)
	if err != nil {
		return wire.Value{}, err
	}
	entries, err := tx.SeenEntries()
	if err != nil {
		return wire.Value{}, err
	}
	ofSender := []wire.Member{}
	for _, s := range horizons {
		ofSender = append(ofSender, wire.M(s.Peer, wire.NewInt(s.Horizon)))
	}
	items := []wire.Value{}
	for _, e := range entries {
		items = append(items, wire.NewArray(wire.NewInt(e.Timestamp), wire.NewString(e.Peer), wire.NewString(e.MessageID)))
	}
	return wire.NewObject(
		wire.M("verdict", wire.NewString(string(verdict))),
		wire.M("H", wire.NewInt(h)),
		wire.M("sender_horizons", wire.NewObject(ofSender...)),
		wire.M("entries", wire.NewArray(items...)),
	), nil
}
