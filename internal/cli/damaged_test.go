package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// damage puts rows into the store of an identity that are sealed under another
// vault key, so that they do not open.
func (s *stage) damage(name string, add func(*store.Tx) error) {
	s.t.Helper()
	app := &app{io: s.io(""), flags: flags{as: name}}
	id, err := app.identity()
	if err != nil {
		s.t.Fatal(err)
	}
	db, err := store.Open(context.Background(), filepath.Join(id.store.Dir(), "store.db"), suite.NewSeed())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(db.Update(context.Background(), add), db.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// Rows that do not open are shown as damaged beside the others, and asked for by
// themselves they are a failure of the store that names them.
func TestDamagedRowsAreShown(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	s.must("inbox") // begins the seen store
	const id, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	now, peer := time.Now().Unix(), "ace:sha256:"+strings.Repeat("ab", 32)
	message := func(id, body string) store.Message {
		return store.Message{MessageID: id, Peer: peer, Type: "ace:text:1", Body: []byte(body), ReceivedAt: now}
	}
	s.damage("default", func(tx *store.Tx) error {
		return errors.Join(
			tx.AddMessage(message(id, `{"message":"lost"}`)),
			tx.AddRequest(store.Request{Peer: peer, Body: []byte("{}"), ReceivedAt: now}),
			tx.AddOutbox(store.OutboxEntry{MessageID: id, Peer: peer, Content: []byte("{}"), Type: "ace:text:1", State: store.Pending, CreatedAt: now, NextAttemptAt: now}))
	})
	s.inStore("default", func(tx *store.Tx) error { return tx.AddMessage(message(other, `{"message":"kept"}`)) })

	for _, c := range []struct {
		args []string
		want []string // what is printed has
	}{
		{[]string{"inbox"}, []string{damaged, "kept"}},
		{[]string{"inbox", "--jq", `.[] | "\(.damaged) \(.untrusted.body)"`}, []string{"true null", `false {"message":"kept"}`}},
		{[]string{"inbox", "list", "--unhandled"}, []string{damaged, "kept"}},
		{[]string{"ack", id}, []string{"handled"}},
		{[]string{"unack", id}, []string{"new"}},
		{[]string{"read", other}, []string{"kept"}},
		{[]string{"contact", "requests"}, []string{damaged}},
		{[]string{"contact", "requests", "--jq", `.[0] | "\(.damaged) [\(.untrusted.note)]"`}, []string{"true []"}},
		{[]string{"contact", "show", peer}, []string{damaged}},
		{[]string{"outbox", "list"}, []string{id[:8]}},
		{[]string{"outbox", "show", id}, []string{damaged}},
		{[]string{"outbox", "show", id, "--jq", `"\(.damaged) \(.body)"`}, []string{"true null"}},
	} {
		out := s.must(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v lacks %q:\n%s", c.args, want, out)
			}
		}
	}
	if r := s.try("read", id); r.status != exitStorage || !strings.Contains(r.err, id) || !strings.Contains(r.err, "does not open") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
