package core

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/store"
)

// What happens to an identity while its store is closed, as with a passphrase
// that does not open it, is noted in a file beside the store. The endpoint takes
// it into the audit log when it is opened, and when it is asked for the log.
const (
	journalSuffix = "-audit.jsonl"
	journalLock   = "-audit.lock"

	// maxJournal bounds the file in bytes. Of more than that the first notes stay:
	// who guesses passphrases must not push them out.
	maxJournal = 64 << 10
	// journalPatience is how long a note waits for another process at the file.
	journalPatience = 10 * time.Second
)

// Note is an event for the audit log. Members that do not apply are "" and 0.
type Note struct {
	At     int64       `json:"at"`
	Event  audit.Event `json:"event"`
	Code   string      `json:"code,omitempty"`
	KELSeq int64       `json:"kel_seq,omitempty"`
	Count  int64       `json:"count,omitempty"`
}

// NoteAudit notes events for the audit log of the endpoint that has its store at
// the given path, without opening it. Codes: lock_busy, storage_failed.
func NoteAudit(storePath string, notes ...Note) error {
	release, err := awaitJournal(storePath, notes[0].At)
	if err != nil {
		return err
	}
	defer release()
	f, err := ownerfile.Append(storePath + journalSuffix)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxJournal {
		return fault.Wrap(fault.StorageFailed, err)
	}
	var lines bytes.Buffer
	for _, n := range notes {
		if err := json.NewEncoder(&lines).Encode(n); err != nil {
			return err
		}
	}
	_, err = f.Write(lines.Bytes())
	return fault.Wrap(fault.StorageFailed, errors.Join(err, f.Sync()))
}

// awaitJournal takes the lock of the file, which nobody holds for long.
func awaitJournal(storePath string, now int64) (release func() error, err error) {
	for end := time.Now().Add(journalPatience); ; time.Sleep(10 * time.Millisecond) {
		lock, err := ownerfile.Acquire(storePath+journalLock, "audit", now)
		if err == nil {
			return lock.Release, nil
		}
		if !errors.Is(err, fault.LockBusy) || time.Now().After(end) {
			return nil, err
		}
	}
}

// foldJournal takes what was noted beside the store into the audit log. Should
// the process end between the two, it is in there twice.
func (e *Endpoint) foldJournal(ctx context.Context) error {
	path := e.config.StorePath
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path + journalSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := ownerfile.Acquire(path+journalLock, "audit", e.config.Clock())
	if errors.Is(err, fault.LockBusy) {
		return nil // somebody is at it, or adds to it: the next time will do
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	notes, err := readJournal(path + journalSuffix)
	if err != nil || notes == nil {
		return err
	}
	err = e.store.Update(ctx, func(tx *store.Tx) error {
		for _, n := range notes {
			if err := tx.AddAudit(store.Audit{At: n.At, Event: n.Event, Code: n.Code, KELSeq: n.KELSeq, Count: n.Count}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fault.Wrap(fault.StorageFailed, os.Remove(path+journalSuffix))
}

// readJournal returns the notes of the file, nil when it is gone. A line that a
// crash has cut short is left out.
func readJournal(path string) ([]Note, error) {
	text, err := ownerfile.Read(path, 2*maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	notes := []Note{}
	for line := range bytes.Lines(text) {
		var n Note
		if json.Unmarshal(line, &n) == nil && n.Event.Known() {
			notes = append(notes, n)
		}
	}
	return notes, nil
}
