package core_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
)

// events returns the events of the log of an agent that a filter selects.
func (a *agent) events(f core.AuditFilter) (events []audit.Event) {
	a.t.Helper()
	entries, err := a.Audit(a.t.Context(), f)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		events = append(events, e.Event)
	}
	return events
}

func wantEvents(t *testing.T, got []audit.Event, want ...audit.Event) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// What an agent does at its relay is noted with the relay.
func TestPublicationsAreNoted(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.publish(false)
	a.publish(false) // nothing changed
	wantEvents(t, a.events(core.AuditFilter{}), audit.RelayRegistered, audit.DescriptorPublished, audit.CardPublished)
	entries, err := a.Audit(t.Context(), core.AuditFilter{})
	if err != nil || slices.ContainsFunc(entries, func(e core.AuditEntry) bool { return e.Relay != r.url || e.At == 0 }) {
		t.Errorf("entries %+v: %v", entries, err)
	}
	a.reopen(func(c *core.Config) { c.Card.Contact = "closed" })
	a.publish(false)
	if _, err := a.Unregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, a.events(core.AuditFilter{After: entries[2].Seq}), audit.CardPublished, audit.RelayUnregistered)
}

func TestAuditSelects(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, closed()), newAgent(t, r, open()), newAgent(t, r, open())
	befriend(alice, bob)
	befriend(alice, carol)
	if err := alice.SetName(t.Context(), bob.ACEID(), "bob"); err != nil {
		t.Fatal(err)
	}
	about, err := alice.Audit(t.Context(), core.AuditFilter{Peer: bob.ACEID(), Events: audit.Match("pin.*")})
	if err != nil || len(about) != 1 || about[0].Event != audit.PinAdopted || about[0].PeerName != "bob" || about[0].KELSeq != 1 {
		t.Errorf("about bob: %+v, %v", about, err)
	}
	wantEvents(t, alice.events(core.AuditFilter{Limit: 1}), audit.ContactAdmitted)
	wantEvents(t, alice.events(core.AuditFilter{Since: r.clock() + 1}))
	if _, err := alice.Audit(t.Context(), core.AuditFilter{MessageID: "short"}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a start of 5 characters: %v", err)
	}
}

// The bounds of the configuration reach the store.
func TestAuditBounds(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	a.reopen(func(c *core.Config) { c.AuditRows, c.AuditSeconds = 4, 1000 })
	for range 4 {
		a.publish(true)
	}
	if n := len(a.events(core.AuditFilter{})); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
	r.ahead.Add(1001)
	if _, err := a.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := a.Audit(t.Context(), core.AuditFilter{})
	if err != nil || slices.ContainsFunc(entries, func(e core.AuditEntry) bool { return e.At+1000 <= r.clock()-1 }) {
		t.Errorf("after the time of the rows: %+v, %v", entries, err)
	}
}

// What is noted while the store is closed, or by another process, is in the log
// when it is asked for, once and in order.
func TestNotesBesideTheStore(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	path := a.config.StorePath
	note := func(notes ...core.Note) {
		t.Helper()
		if err := core.NoteAudit(path, notes...); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	note(core.Note{At: 5, Event: audit.PassphraseRefused, Code: "identity_unavailable"})
	note(core.Note{At: 6, Event: audit.KeyDelegated, KELSeq: 2}, core.Note{At: 6, Event: audit.PermitVoided, Count: 3})
	if info, err := os.Stat(path + "-audit.jsonl"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	a.open()
	note(core.Note{At: 7, Event: audit.BackupCreated}) // while it is open
	for range 2 {
		entries, err := a.Audit(t.Context(), core.AuditFilter{})
		want := []core.AuditEntry{
			{Seq: 1, At: 5, Event: audit.PassphraseRefused, Code: "identity_unavailable"}, {Seq: 2, At: 6, Event: audit.KeyDelegated, KELSeq: 2},
			{Seq: 3, At: 6, Event: audit.PermitVoided, Count: 3}, {Seq: 4, At: 7, Event: audit.BackupCreated},
		}
		if err != nil || !slices.Equal(entries, want) {
			t.Errorf("entries %+v: %v", entries, err)
		}
	}
}

// A file that a crash has cut short, or that somebody has written into, adds no
// event that the log does not know, and one that others can read is refused.
func TestNotesThatAreDamaged(t *testing.T) {
	a := newAgent(t, newRelay(t), open())
	path := a.config.StorePath + "-audit.jsonl"
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"at":1,"event":"passphrase.refused"}`+"\n"+`{"at":2,"event":"secret.told"}`+"\n[]\n\n"+`{"at":3,"event":"passph`, 0o600)
	wantEvents(t, a.events(core.AuditFilter{}), audit.PassphraseRefused)
	write(`{"at":1,"event":"passphrase.refused"}`+"\n", 0o644)
	if _, err := a.Audit(t.Context(), core.AuditFilter{}); !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("a file for everybody: %v", err)
	}
}

// However many passphrases somebody tries, the file stays small.
func TestNotesAreBounded(t *testing.T) {
	a := newAgent(t, newRelay(t), open())
	many := make([]core.Note, 100)
	for i := range many {
		many[i] = core.Note{At: int64(i), Event: audit.PassphraseRefused}
	}
	for range 30 {
		if err := core.NoteAudit(a.config.StorePath, many...); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(a.config.StorePath + "-audit.jsonl"); err != nil || info.Size() > 128<<10 {
		t.Errorf("%v: %v", info, err)
	}
	n := len(a.events(core.AuditFilter{}))
	if n < 1000 || n >= 3000 {
		t.Errorf("%d notes are kept", n)
	}
}

// Notes of many at once are all there, while the log is read.
func TestNotesOfManyAtOnce(t *testing.T) {
	a := newAgent(t, newRelay(t), open())
	var noting sync.WaitGroup
	for range 8 {
		noting.Go(func() {
			for range 20 {
				if err := core.NoteAudit(a.config.StorePath, core.Note{At: 1, Event: audit.PassphraseChanged}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		noting.Wait()
	}()
	for {
		if _, err := a.Audit(context.Background(), core.AuditFilter{Limit: 1}); err != nil {
			t.Error(err)
		}
		select {
		case <-noted:
			if n := len(a.events(core.AuditFilter{})); n != 160 {
				t.Errorf("%d notes, want 160", n)
			}
			return
		default:
		}
	}
}
