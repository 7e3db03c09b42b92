package relaydb_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const now = int64(1760140800)

var (
	room = relaydb.Room{Entries: 100, Bytes: 1 << 20, Strangers: 16, PerNetwork: 2}
	ctx  = context.Background()
)

func open(t *testing.T, path string) *relaydb.DB {
	t.Helper()
	d, err := relaydb.Open(ctx, path, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func newDB(t *testing.T) *relaydb.DB {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "relay", "relay.db"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, want relaydb.Refusal) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// registered stores an identity and returns it.
func registered(t *testing.T, d *relaydb.DB, id string) relaydb.Identity {
	t.Helper()
	must(t, d.Register(ctx, relaydb.Registration{ACEID: id, Timestamp: now, Digest: "m", KELEnd: "end-" + id, KEL: []byte("[]"), Network: "n"}, nil))
	i, err := d.Identity(ctx, id)
	must(t, err)
	return i
}

func packet(to, from, text string) relaydb.Packet {
	sum := sha256.Sum256([]byte(text))
	return relaydb.Packet{To: to, From: from, Digest: sum[:], Raw: []byte(text), KELEnd: "end-" + to, Network: "net", Now: now, Expires: now + 100}
}

func enqueue(t *testing.T, d *relaydb.DB, p relaydb.Packet) {
	t.Helper()
	queued, err := d.Enqueue(ctx, p, room)
	if err != nil || !queued {
		t.Fatalf("queued %v, error %v", queued, err)
	}
}

func queue(t *testing.T, d *relaydb.DB, id string) []relaydb.Entry {
	t.Helper()
	i, err := d.Identity(ctx, id)
	must(t, err)
	var entries []relaydb.Entry
	_, err = d.Entries(ctx, relaydb.Span{ACEID: id, Incarnation: i.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(e relaydb.Entry) bool {
		entries = append(entries, relaydb.Entry{StreamID: e.StreamID, Packet: bytes.Clone(e.Packet)})
		return true
	})
	must(t, err)
	return entries
}

var nonces int

func caller(id string, i relaydb.Identity) relaydb.Caller {
	nonces++
	return relaydb.Caller{ACEID: id, Incarnation: i.Incarnation, Nonce: fmt.Sprint(nonces), Forget: now + 601}
}

func TestDurableAcrossReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	d := open(t, path)
	alice := registered(t, d, "alice")
	spent := caller("alice", alice)
	must(t, d.Spend(ctx, spent))
	for i := range 3 {
		enqueue(t, d, packet("alice", "bob", fmt.Sprint("packet ", i)))
	}
	must(t, d.Block(ctx, caller("alice", alice), relaydb.Block{Peer: "eve", Blocked: true, Revision: 7}, 256))
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	must(t, d.Close())

	d = open(t, path)
	got := queue(t, d, "alice")
	if len(got) != 2 || got[0].StreamID != "1-2" || string(got[0].Packet) != "packet 1" {
		t.Fatalf("queue after reopening: %v", got)
	}
	refused(t, d.Spend(ctx, spent), relaydb.Replayed)
	refused(t, d.Block(ctx, caller("alice", alice), relaydb.Block{Peer: "eve", Revision: 7}, 256), relaydb.OldRevision)
	_, err := d.Enqueue(ctx, packet("alice", "eve", "x"), room)
	refused(t, err, relaydb.Unreachable)
	must(t, d.Ack(ctx, caller("alice", alice), "1-3"))
	must(t, d.Close())

	d = open(t, path)
	enqueue(t, d, packet("alice", "bob", "later"))
	if got := queue(t, d, "alice"); len(got) != 1 || got[0].StreamID != "1-4" {
		t.Fatalf("a stream ID was given again: %v", got)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) < 3 {
		t.Fatalf("no write-ahead log among %v", files)
	}
	for _, f := range files {
		info, err := f.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", f.Name(), info.Mode().Perm())
		}
	}
	must(t, d.Close())

	must(t, os.Chmod(path, 0o640))
	if _, err := relaydb.Open(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("a file that the group can read: %v", err)
	}
	must(t, os.Chmod(path, 0o600))
	must(t, os.Chmod(dir, 0o755))
	if _, err := relaydb.Open(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), "chmod 0700") {
		t.Errorf("a folder that all can read: %v", err)
	}
}

func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "relay.db")
	d := open(t, path)
	if _, err := relaydb.Open(ctx, path, now); fault.CodeOf(err) != fault.LockBusy {
		t.Fatalf("second open: %v", err)
	}
	must(t, d.Close())
	open(t, path)
}

func TestLaterSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "relay.db")
	must(t, open(t, path).Close())
	// The user version is the big-endian number at byte 60 of the file.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0, 0, 0, 99}, 60)
	must(t, err)
	must(t, f.Close())
	if _, err := relaydb.Open(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), "version 99") {
		t.Fatalf("got %v", err)
	}
}

// TestForeignFileIsLeftAlone opens what another program made.
func TestForeignFileIsLeftAlone(t *testing.T) {
	for name, statements := range map[string]string{
		"tables of another program":          "CREATE TABLE foo (x)",
		"the version of a relay":             "CREATE TABLE foo (x); PRAGMA user_version = 1",
		"a later version":                    "CREATE TABLE foo (x); PRAGMA user_version = 99",
		"a table with the name of a relay's": "CREATE TABLE relay (x)",
		"no database":                        "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.Chmod(dir, 0o700))
			path := filepath.Join(dir, "relay.db")
			must(t, os.WriteFile(path, []byte(strings.Repeat("some text ", 100)), 0o600))
			if statements != "" {
				must(t, os.Truncate(path, 0))
				d, err := sql.Open("sqlite", path)
				must(t, err)
				_, err = d.Exec(statements)
				must(t, errors.Join(err, d.Close()))
			}
			before, err := os.ReadFile(path)
			must(t, err)
			if _, err := relaydb.Open(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Fatalf("the file has changed (%v)", err)
			}
		})
	}
}

// TestAcknowledgedBytesAreGone looks for a packet in the files themselves.
func TestAcknowledgedBytesAreGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d := open(t, filepath.Join(dir, "relay.db"))
	alice := registered(t, d, "alice")
	text := strings.Repeat("find me ", 3000)
	enqueue(t, d, packet("alice", "bob", text))
	if !inFiles(t, dir, "find me find me") {
		t.Fatal("the packet is in no file: the test looks in the wrong place")
	}
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	must(t, d.Sweep(ctx, now))
	if inFiles(t, dir, "find me find me") {
		t.Fatal("the acknowledged packet is still on the disk")
	}
}

func inFiles(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(t, err)
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// TestConcurrentDecisions checks that decisions that share a commit do not
// touch one another: some senders are refused, the others all get through.
func TestConcurrentDecisions(t *testing.T) {
	d := newDB(t)
	alice := registered(t, d, "alice")
	must(t, d.Block(ctx, caller("alice", alice), relaydb.Block{Peer: "eve", Blocked: true, Revision: 1}, 256))
	const n = 64
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() {
			from := "bob"
			if i%4 == 0 {
				from = "eve"
			}
			_, errs[i] = d.Enqueue(ctx, packet("alice", from, fmt.Sprint("packet ", i)), relaydb.Room{Entries: n, Bytes: 1 << 20})
		})
	}
	group.Wait()
	for i, err := range errs {
		if i%4 == 0 {
			refused(t, err, relaydb.Unreachable)
		} else {
			must(t, err)
		}
	}
	got := queue(t, d, "alice")
	if len(got) != n*3/4 {
		t.Fatalf("%d entries, want %d", len(got), n*3/4)
	}
	for i, e := range got {
		if want := fmt.Sprint("1-", i+1); e.StreamID != want {
			t.Fatalf("entry %d has stream ID %s, want %s", i, e.StreamID, want)
		}
	}
}

func TestNonceOnce(t *testing.T) {
	d := newDB(t)
	alice := registered(t, d, "alice")
	c := caller("alice", alice)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = d.Spend(ctx, c) })
	}
	group.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
			continue
		}
		refused(t, err, relaydb.Replayed)
	}
	if accepted != 1 {
		t.Fatalf("accepted %d times", accepted)
	}
	must(t, d.Sweep(ctx, now+601))
	refused(t, d.Spend(ctx, c), relaydb.Replayed)
	must(t, d.Sweep(ctx, now+602))
	must(t, d.Spend(ctx, c))
}

// TestStaleDecision stores decisions that were made against a registration
// which another one has changed meanwhile.
func TestStaleDecision(t *testing.T) {
	d := newDB(t)
	seen := registered(t, d, "alice")
	r := relaydb.Registration{ACEID: "alice", Timestamp: now + 1, Digest: "m1", KELEnd: seen.KELEnd, KEL: []byte("[]"), Network: "n"}
	must(t, d.Register(ctx, r, &seen))
	refreshed, err := d.Identity(ctx, "alice")
	must(t, err)
	if refreshed.Incarnation != seen.Incarnation || refreshed.Timestamp != now+1 {
		t.Fatalf("after a refresh: %+v", refreshed)
	}
	r.Digest = "m2"
	refused(t, d.Register(ctx, r, &seen), relaydb.Changed)
	refused(t, d.Register(ctx, r, nil), relaydb.Changed)
	c := caller("alice", seen)
	refused(t, d.Unregister(ctx, c, seen, now+2, now), relaydb.Changed)
	must(t, d.Unregister(ctx, c, refreshed, now+2, now))
	refused(t, d.Spend(ctx, caller("alice", refreshed)), relaydb.Changed)
}

func TestBlockCap(t *testing.T) {
	d := newDB(t)
	alice := registered(t, d, "alice")
	block := func(peer string, blocked bool, revision int64) error {
		return d.Block(ctx, caller("alice", alice), relaydb.Block{Peer: peer, Blocked: blocked, Revision: revision}, 2)
	}
	must(t, block("bob", true, 1))
	must(t, block("carol", false, 1))
	refused(t, block("dave", true, 1), relaydb.TooManyPeers)
	must(t, block("bob", false, 2))
	refused(t, block("bob", true, 2), relaydb.OldRevision)
}

func TestClosedStore(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	must(t, d.Close())
	if _, err := d.Enqueue(ctx, packet("alice", "bob", "x"), room); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("got %v", err)
	}
	if err := d.Check(ctx); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("got %v", err)
	}
}
