package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// The files of the relay's store.
const (
	database = "relay.db"
	locks    = ".lock"
	segment  = "packets-*.log"
)

// verifyEvery is how many lives pass between two checks of the whole store.
const verifyEvery = 3

// verify checks the store as a dead relay has left it, and as the next one will
// find it, having brought the database and the packet log together. It does so
// in a copy, because the next relay shall begin with what the dead one wrote.
//
// After a failed fsync the two may disagree in what nobody was answered for.
func (r *round) verify(n int, p plan) {
	if !r.made || n%verifyEvery != 0 {
		return
	}
	dir, err := os.MkdirTemp(scratch, "store-")
	if err != nil {
		r.t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := copyStore(dir, r.place.data()); err != nil {
		r.t.Fatal(err)
	}
	store := filepath.Join(dir, database)
	if !p.failing() {
		r.check("the store that was left", store)
	}
	db, err := relaydb.Open(context.Background(), store, r.now())
	if err != nil {
		r.findings.add(files, "the store cannot be opened: %v", err)
		return
	}
	if err := db.Close(); err != nil {
		r.findings.add(files, "the store cannot be closed: %v", err)
	}
	r.check("the store after it was opened", store)
	r.count.verified.Add(1)
}

func (r *round) check(which, store string) {
	report, err := relaydb.VerifyFile(context.Background(), store, r.now())
	if err != nil {
		r.findings.add(files, "%s cannot be checked: %v", which, err)
	}
	for _, problem := range report.Problems {
		r.findings.add(files, "%s: %s", which, problem)
	}
	if report.Quarantined > 0 {
		r.findings.add(files, "%s: %d packets were put aside", which, report.Quarantined)
	}
}

func copyStore(to, from string) error {
	paths, err := storeFiles(from)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "-shm") {
			continue // what it says is made anew from the write-ahead log
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func storeFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), locks) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// settling bounds how long the relay may take to erase.
const settling = 3 * patience / 2

// settle is the load of a quiet life. It reads every queue, and then waits
// until the files hold nothing of the packets that are gone, and the packet log
// is no longer than what is queued demands. That is for the relay to do without
// being asked: what has to be erased was deleted in the lives before.
//
// What is asked of the relay then finds the wake registrations.
func (l *life) settle() {
	var owners []*owner
	for i, a := range l.agents {
		owners = append(owners, &owner{life: l, agent: a, random: l.source(2 * i)})
	}
	for _, o := range owners {
		if o.scan() != nil {
			return
		}
		l.audits.Add(1)
	}
	l.awaitErasure()
	for _, o := range owners {
		if o.checkWake() != nil {
			return
		}
	}
	l.endAfter(0)
}

func (l *life) awaitErasure() {
	for deadline := time.Now().Add(settling); ; time.Sleep(20 * time.Millisecond) {
		wrong, err := l.leftover()
		switch {
		case err != nil:
			l.t.Error(err)
		case wrong == nil:
			l.count.settled.Add(1)
		case time.Now().Before(deadline):
			continue
		default:
			l.findings.add(files, "after %s, %s\n%s", settling, wrong, l.relay.stderr)
		}
		return
	}
}

// leftover returns what is in the files and should not be, nil for nothing: a
// packet that is gone, or a segment of the packet log, but for the last one, of
// which less than half is queued.
func (r *round) leftover() (wrong, err error) {
	paths, err := storeFiles(r.place.data()) // sorted: segments by their start
	if err != nil {
		return nil, err
	}
	last := ""
	for _, path := range paths {
		if isSegment(path) {
			last = path
		}
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a segment that was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		live, wrong := r.inspect(b)
		if wrong != nil {
			return fmt.Errorf("%s has %w", filepath.Base(path), wrong), nil
		}
		if isSegment(path) && path != last && 2*live < len(b) {
			return fmt.Errorf("%s has %d bytes, of which %d are queued", filepath.Base(path), len(b), live), nil
		}
	}
	return nil, nil
}

func isSegment(path string) bool {
	matched, _ := filepath.Match(segment, filepath.Base(path))
	return matched
}

// saidSize is what the packet log has beside each packet, in bytes.
const saidSize = 160

// inspect looks for packets in what a file holds. It returns the bytes of those
// that may be queued, and an error for one that is gone.
func (r *round) inspect(file []byte) (live int, wrong error) {
	mark := []byte(`"messageId":"`)
	for rest := file; ; {
		i := bytes.Index(rest, mark)
		if i < 0 {
			return live, nil
		}
		rest = rest[i+len(mark):]
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			return live, nil
		}
		for _, a := range slices.Concat(r.agents, r.former) {
			size, left, gone := a.whereabouts(string(rest[:end]))
			if gone {
				return live, fmt.Errorf("a packet at %d that is gone from the queue of %s: %s", len(file)-len(rest), a.name, left.why)
			}
			if size > 0 {
				live += size + saidSize
			}
		}
	}
}
