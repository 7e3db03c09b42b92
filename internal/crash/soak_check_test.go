package crash

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// loss is the state of a side that was lost, as it was.
type loss struct {
	side    *side
	outbox  map[string]store.OutboxEntry // of the side, by message ID
	inbox   map[string]bool              // of the side
	settled map[string]bool              // messages of the peer that had their outcome
}

// stateDir is where the store of an identity is.
func (x *side) stateDir() string {
	return filepath.Join(x.dir, ".local/share/ace/identities/default")
}

// stateFiles are those of the store.
func (x *side) stateFiles() []string {
	files, err := filepath.Glob(filepath.Join(x.stateDir(), "*.db*"))
	if err != nil || len(files) == 0 {
		x.t.Fatalf("no store in %s: %v", x.stateDir(), err)
	}
	return files
}

// state is what a store holds, read from a copy.
type state struct {
	outbox     map[string]store.OutboxEntry
	attempts   map[string][]store.Attempt
	inbox      map[string]bool
	order      []string // in which the messages of the inbox came
	handlings  []store.Handling
	audits     []store.Audit
	quarantine []store.Quarantined
}

// read copies the store of a side to a folder and reads it. Nobody uses it.
func (x *side) read(name string) state {
	x.t.Helper()
	dir := x.soak.folder(name)
	for _, file := range x.stateFiles() {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600)
		}
		if err != nil {
			x.t.Fatal(err)
		}
	}
	vault := suite.NewSeed() // nothing sealed is read
	defer vault.Destroy()
	s := state{outbox: map[string]store.OutboxEntry{}, attempts: map[string][]store.Attempt{}, inbox: map[string]bool{}}
	db, err := store.Open(x.t.Context(), filepath.Join(dir, filepath.Base(x.stateFiles()[0])), vault)
	if err != nil {
		x.t.Fatal(err)
	}
	defer db.Close()
	err = db.View(x.t.Context(), func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		if err != nil {
			return err
		}
		for _, e := range entries {
			s.outbox[e.MessageID] = e
			if s.attempts[e.MessageID], err = tx.Attempts(e.MessageID); err != nil {
				return err
			}
		}
		messages, err := tx.Messages(store.MessageFilter{})
		if err != nil {
			return err
		}
		for _, m := range messages {
			s.inbox[m.MessageID] = true
			s.order = append(s.order, m.MessageID)
		}
		if s.handlings, err = tx.Handlings(); err != nil {
			return err
		}
		if s.audits, err = tx.Audits(store.AuditFilter{}); err != nil {
			return err
		}
		s.quarantine, err = tx.Quarantine()
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return s
}

// lose deletes the state of a side, all but its keys and settings, and waits
// until both hear each other again: the peer's messages bring the contact back
// (05#admission-recovery).
func (s *soak) lose(x *side) {
	s.t.Helper()
	s.heal("nobody has changed a key") // a permit of the new key is held
	x.using.Lock()
	x.end(syscall.SIGTERM)
	was := x.read("lost")
	s.lost = &loss{side: x, outbox: was.outbox, inbox: was.inbox, settled: map[string]bool{}}
	for _, id := range x.peer.outbox(`map(select(.settled_at != null) | .message_id)`) {
		s.lost.settled[id] = true
	}
	for _, file := range x.stateFiles() {
		if err := os.Remove(file); err != nil {
			s.t.Fatal(err)
		}
	}
	x.checkShown(was)
	x.shown, x.killed = nil, false
	x.bar(true)
	x.mu.Lock()
	for i := range x.queued {
		x.queued[i].lost = true
	}
	x.mu.Unlock()
	x.peer.mu.Lock()
	for i := range x.peer.queued {
		x.peer.queued[i].early = true
	}
	x.peer.mu.Unlock()
	x.using.Unlock()
	x.start()
	s.heal(x.name + " has lost all state")
	x.bar(false)
}

// check compares what was queued with what both stores hold in the end, which it
// returns.
func (s *soak) check() (states [2]state) {
	s.t.Helper()
	for i, x := range s.sides {
		states[i] = x.read(x.name + "-end")
		x.checkShown(states[i])
	}
	for i, x := range s.sides {
		x.checkQueued(states[i], states[1-i])
		x.checkAudits(states[i], states[1-i])
		if got := x.must("contact", "list", "--jq", `.[] | select(.held_permit_expires_at != null and .issued_permit_expires_at != null) | .state`); got != "admitted" {
			s.t.Errorf("%s: the contact is %q", x.name, got)
		}
	}
	s.say("%d acts, %d of them new keys; alice sent %d messages, bob %d", s.counts["acts"], s.counts["keys"], len(s.sides[0].queued), len(s.sides[1].queued))
	s.say("%d packets in quarantine; what was not delivered at once: %v", s.counts["quarantined"], s.counts)
	return states
}

// checkShown holds what the listeners showed against the store: nothing twice,
// nothing that is not there, and all of it unless a listener was killed before
// it could show what it had stored.
func (x *side) checkShown(s state) {
	x.t.Helper()
	if id := repeated(x.shown); id != "" {
		x.t.Errorf("%s was shown %s twice", x.name, id)
	}
	for _, e := range x.shown {
		if !s.inbox[e.MessageID] {
			x.t.Errorf("%s was shown %s, which is not stored", x.name, e.MessageID)
		}
	}
	if missing := len(s.inbox) - len(x.shown); missing > 0 {
		x.soak.counts["not shown"] += missing
		if !x.killed {
			x.t.Errorf("%s was not shown %d messages of %d", x.name, missing, len(s.inbox))
		}
	}
}

// checkQueued judges each message of a side by what became of it at the other.
func (x *side) checkQueued(own, peer state) {
	x.t.Helper()
	lost := x.soak.lost
	known := map[string]bool{}
	for _, m := range x.queued {
		known[m.id] = true
		entry, kept := own.outbox[m.id]
		arrived, before := peer.inbox[m.id], false
		switch {
		case m.lost:
			// What a relay had taken arrives, though nobody waits for its
			// receipt. What none had taken is lost with the Outbox.
			entry = lost.outbox[m.id]
			if kept {
				x.t.Errorf("%s is in the outbox of %s, which was lost", m.text, x.name)
			}
			if entry.Relay != "" && !arrived {
				x.t.Errorf("%s was taken by a relay and did not arrive", m.text)
			}
			if !arrived {
				x.soak.counts["lost with the outbox"]++
			}
			continue
		case lost != nil && lost.side == x.peer:
			before = m.early && lost.inbox[m.id]
			if arrived && lost.settled[m.id] {
				x.t.Errorf("%s had its outcome and arrived again", m.text)
			}
			if arrived && before { // 05#admission-recovery: the seen store is lost too
				x.soak.counts["again after the loss"]++
			}
		}
		switch {
		case !kept || entry.State != store.Delivered:
			x.t.Errorf("%s: in the outbox as %q, rejected with %q", m.text, entry.State, entry.RemoteCode)
		case !arrived && !before:
			x.t.Errorf("%s counts as delivered and is not there", m.text)
		}
		if entry.Attempts > 1 {
			x.soak.counts["retried"]++
		}
	}
	for id := range own.outbox {
		if !known[id] {
			x.t.Errorf("%s has queued %s, which it did not say", x.name, id)
		}
	}
	for id := range peer.inbox {
		if !known[id] {
			x.t.Errorf("%s has %s, which nobody has queued", x.peer.name, id)
		}
	}
}

// refused are the rows about packets that were not taken in.
var refused = []audit.Event{audit.MessageDropped, audit.MessageRejected}

// checkAudits holds what a receiver has noted of packets that it did not take in
// against the Outbox of the sender: none is of a message that was given up, and
// only those are rejected that were encrypted to a key which is gone.
func (x *side) checkAudits(own, peer state) {
	x.t.Helper()
	for _, a := range own.audits {
		if !slices.Contains(refused, a.Event) {
			continue
		}
		x.soak.counts[string(a.Event)+" "+a.Code]++
		if a.Event == audit.MessageRejected && a.Code != "unknown_prekey" {
			x.t.Errorf("%s has rejected %s with %s", x.name, a.MessageID, a.Code)
		}
		if e, ok := peer.outbox[a.MessageID]; ok && e.State != store.Delivered {
			x.t.Errorf("%s has %s %s (%s), and it is %s", x.name, a.Event, a.MessageID, a.Code, e.State)
		}
	}
	x.soak.counts["quarantined"] += len(own.quarantine)
	for _, q := range own.quarantine {
		x.soak.counts["quarantined "+q.Code]++
		if !x.soak.handled { // else packets are given up as the relay fails
			x.soak.say("%s has in quarantine: %s %.300s", x.name, q.Code, q.Packet)
		}
	}
}
