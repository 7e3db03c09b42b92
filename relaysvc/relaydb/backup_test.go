package relaydb_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(dir, 0o700))
	return dir
}

// TestBackupIsWhole takes a backup of a store in use and verifies it from its
// file.
func TestBackupIsWhole(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	registered(t, d, "alice")
	for i := range 3 {
		enqueue(t, d, packet("alice", "bob", fmt.Sprint("packet ", i)))
	}
	path := filepath.Join(dir, "copy.db")
	b, err := d.Backup(ctx, path, now+5)
	must(t, err)
	if !b.Restorable() || b.Entries != 3 || b.Identities != 1 || b.TakenAt != now+5 || len(b.SHA256) != 64 {
		t.Fatalf("backup %+v", b)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() != b.Size {
		t.Fatalf("mode %v, size %d", info.Mode(), info.Size())
	}
	read, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(read.Problems) > 0 || read.Entries != 3 || read.TakenAt != now+5 {
		t.Fatalf("report %+v", read)
	}
	if _, err := d.Backup(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("a second backup of the same name: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.partial*"))
	must(t, err)
	if len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// TestVerifyFindsAChangedPacket changes one byte of one packet.
func TestVerifyFindsAChangedPacket(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "the packet that changes"))
	enqueue(t, d, packet("alice", "bob", "the packet that stays"))
	log := d.LogFiles()[0]
	must(t, d.Close())
	flip(t, log, "the packet that changes")
	r, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "not the one that was queued") {
		t.Fatalf("problems %q", r.Problems)
	}
}

// flip changes the last byte of a text in a file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	i := strings.Index(string(data), text)
	if i < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	data[i+len(text)-1] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}

// TestRestoreGoesOnInANewGeneration: what is queued after a restore is above
// every stream ID that was given before it, also above those given after the
// backup.
func TestRestoreGoesOnInANewGeneration(t *testing.T) {
	dir := dataDir(t)
	path, copied := filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "before"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	enqueue(t, d, packet("alice", "bob", "after"))
	if _, err := relaydb.Restore(ctx, copied, path, true, now); fault.CodeOf(err) != fault.LockBusy {
		t.Fatalf("restored under a running relay: %v", err)
	}
	must(t, d.Close())

	if _, err := relaydb.Restore(ctx, copied, path, false, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("replaced a store without force: %v", err)
	}
	r, err := relaydb.Restore(ctx, copied, path, true, now+9)
	must(t, err)
	if r.Generation != now+9 || r.Replaced == "" {
		t.Fatalf("restored %+v", r)
	}
	d = open(t, path)
	enqueue(t, d, packet("alice", "bob", "new"))
	got := queue(t, d, "alice")
	if len(got) != 2 || got[0].StreamID != "1-1" || got[1].StreamID != fmt.Sprint(now+9, "-2") {
		t.Fatalf("queue %v", got)
	}
	if d.RestoredAt() != now+9 {
		t.Fatalf("restored at %d", d.RestoredAt())
	}
	must(t, d.Close())
	if old, err := relaydb.VerifyFile(ctx, r.Replaced, now); err != nil || old.Entries != 2 || len(old.Problems) > 0 {
		t.Fatalf("the replaced store: %+v, %v", old, err)
	}
}

// TestRestoreRefusesWhatIsNoWholeBackup, and leaves no store behind.
func TestRestoreRefusesWhatIsNoWholeBackup(t *testing.T) {
	dir := dataDir(t)
	path, copied := filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "the packet in the backup"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	must(t, d.Close())

	target := filepath.Join(dir, "other", "relay.db")
	flip(t, copied, "the packet in the backup")
	for name, from := range map[string]string{"no backup": path, "changed": copied, "missing": filepath.Join(dir, "none.db")} {
		if _, err := relaydb.Restore(ctx, from, target, false, now); fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantFiles(t, dir, "copy.db", "packets.log", "relay.db", "relay.db.lock")
	must(t, os.Chmod(copied, 0o640))
	for what, err := range map[string]error{"restored": restoreError(copied, target), "verified": verifyError(copied)} {
		if fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%s a file that others can read: %v", what, err)
		}
	}
}

func restoreError(backup, path string) error {
	_, err := relaydb.Restore(ctx, backup, path, false, now)
	return err
}

func verifyError(path string) error {
	_, err := relaydb.VerifyFile(ctx, path, now)
	return err
}

// TestABackupSaysItselfWhatItIs: whole, or the copy of a damaged store.
func TestABackupSaysItselfWhatItIs(t *testing.T) {
	dir, path, copied := backedUp(t)
	alter(t, path, "UPDATE entries SET digest = zeroblob(32)")
	d := open(t, path)
	damaged := filepath.Join(dir, "damaged.db")
	b, err := d.Backup(ctx, damaged, now)
	must(t, err)
	must(t, d.Close())
	if b.Restorable() || len(b.Problems) != 1 {
		t.Fatalf("backup %+v", b)
	}
	for file, want := range map[string]bool{copied: true, damaged: false} {
		db, err := sql.Open("sqlite", file)
		must(t, err)
		var restorable bool
		var taken int64
		must(t, db.QueryRow("SELECT restorable, taken_at FROM backup").Scan(&restorable, &taken))
		must(t, db.Close())
		if restorable != want || taken != now {
			t.Errorf("%s says %v, %d", filepath.Base(file), restorable, taken)
		}
	}
	if err := restoreError(damaged, filepath.Join(dir, "other", "relay.db")); err == nil || !strings.Contains(err.Error(), "not restorable") {
		t.Errorf("a damaged one was restored: %v", err)
	}
}

// alter runs SQL on a closed store.
func alter(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.Exec(query)
	must(t, err)
	must(t, db.Close())
}

// TestVerifyFindsEachKindOfDamage that SQL can do.
func TestVerifyFindsEachKindOfDamage(t *testing.T) {
	for query, want := range map[string]string{
		"UPDATE queues SET entries = entries + 1":                                             "its totals",
		"UPDATE queues SET bytes = bytes + 1":                                                 "its totals",
		"UPDATE queues SET strangers = strangers + 1":                                         "its totals",
		"UPDATE queues SET stranger_bytes = stranger_bytes + 1":                               "its totals",
		"UPDATE entries SET size = size + 1":                                                  "not the one that was queued",
		"UPDATE entries SET place = place + 1":                                                "not the one that was queued",
		"UPDATE entries SET place = NULL, body = 99":                                          "not the one that was queued",
		"INSERT INTO erasures SELECT place, size FROM entries":                                "is to be erased",
		"UPDATE networks SET queued = queued + 1":                                             "network",
		"UPDATE identities SET stored = stored + 1":                                           "charged",
		`PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE name = 'entries_digest'`: "structure",
	} {
		_, path, _ := backedUp(t)
		alter(t, path, query)
		r, err := relaydb.VerifyFile(ctx, path, now)
		if err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), want) {
			t.Errorf("%s: %q, %v", query, r.Problems, err)
		}
	}
}

// TestAReportIsBounded, and counts what there is.
func TestAReportIsBounded(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	registered(t, d, "bob")
	must(t, d.SetQuota(ctx, "alice", &relaydb.Quota{Entries: 101, Bytes: 1 << 20}))
	for i := range 101 {
		enqueue(t, d, packet("alice", "bob", fmt.Sprintf("packet %03d", i)))
	}
	must(t, d.Purge(ctx, "bob", now))
	must(t, d.Close())
	r, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(r.Problems) > 0 || r.Identities != 1 || r.Entries != 101 || r.Bytes != 101*10 || r.Quarantined != 0 {
		t.Fatalf("report %+v", r)
	}
	alter(t, path, `
UPDATE entries SET digest = CAST(printf('%032d', seq) AS BLOB);
INSERT INTO quarantine (identity, generation, seq, at, reason, body) VALUES (1, 1, 1, 1, 'test', 1)`)
	r, err = relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(r.Problems) != 100 || r.Quarantined != 1 {
		t.Fatalf("%d problems, %d quarantined", len(r.Problems), r.Quarantined)
	}
}

// wantFiles compares the names in a folder, with that of each packet log cut
// short.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, "packets-") {
			name = "packets" + filepath.Ext(name)
		}
		got = append(got, name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
}

// backedUp is a folder with a store, closed, of one packet and its backup
// copy.db.
func backedUp(t *testing.T) (dir, path, copied string) {
	t.Helper()
	dir = dataDir(t)
	path, copied = filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "before"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	must(t, d.Close())
	return dir, path, copied
}

// TestRestoreIsAboveAStoreThatIsLost: the same backup restored twice where
// nothing is known of the store between gives no stream ID twice.
func TestRestoreIsAboveAStoreThatIsLost(t *testing.T) {
	dir, _, copied := backedUp(t)
	for i, name := range []string{"one", "two"} {
		r, err := relaydb.Restore(ctx, copied, filepath.Join(dir, name, "relay.db"), false, now+int64(i))
		must(t, err)
		if r.Generation != now+int64(i) {
			t.Fatalf("%s: generation %d", name, r.Generation)
		}
	}
	// With a clock that is behind, it is above what is there all the same, and
	// above the backup.
	two := filepath.Join(dir, "two", "relay.db")
	r, err := relaydb.Restore(ctx, copied, two, true, 5)
	must(t, err)
	if r.Generation != now+2 {
		t.Fatalf("generation %d", r.Generation)
	}
	d := open(t, two)
	later := filepath.Join(dir, "later.db")
	b, err := d.Backup(ctx, later, now)
	must(t, err)
	must(t, d.Close())
	if b.Generation != now+2 || !b.Restorable() {
		t.Fatalf("backup of a restored store: %+v", b)
	}
	r, err = relaydb.Restore(ctx, later, filepath.Join(dir, "three", "relay.db"), false, 5)
	must(t, err)
	if r.Generation != now+3 {
		t.Fatalf("generation %d", r.Generation)
	}
	if read, err := relaydb.VerifyFile(ctx, filepath.Join(dir, "three", "relay.db"), now); err != nil || read.TakenAt != 0 {
		t.Fatalf("a store counts as a backup: %+v, %v", read, err)
	}
}

// TestRestoreReplacesAStoreThatCannotBeRead, and keeps it with all its files.
func TestRestoreReplacesAStoreThatCannotBeRead(t *testing.T) {
	dir, path, copied := backedUp(t)
	for _, ending := range []string{"", "-wal", "-shm", "-journal"} {
		must(t, os.WriteFile(path+ending, []byte("no database"+ending), 0o600))
	}
	r, err := relaydb.Restore(ctx, copied, path, true, now)
	must(t, err)
	if r.Generation != now {
		t.Fatalf("restored %+v", r)
	}
	aside := filepath.Base(r.Replaced)
	wantFiles(t, dir, "copy.db", "packets.log", "relay.db", "relay.db.lock", "relay.db.replaced-"+fmt.Sprint(now),
		aside+"-journal", aside+"-shm", aside+"-wal")
	d := open(t, path)
	if got := queue(t, d, "alice"); len(got) != 1 {
		t.Fatalf("queue %v", got)
	}
	must(t, d.Close())
	if _, err := relaydb.Restore(ctx, copied, path, true, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("what was kept is replaced: %v", err)
	}
	if text, err := os.ReadFile(r.Replaced); err != nil || string(text) != "no database" {
		t.Fatalf("kept %q, %v", text, err)
	}
	if _, err := os.Stat(path + ".restoring"); err == nil {
		t.Fatal("the new store was left behind")
	}
}

// TestRestoreKeepsWhatStandsInTheLog of a store that was killed.
func TestRestoreKeepsWhatStandsInTheLog(t *testing.T) {
	dir, path, copied := backedUp(t)
	killed := filepath.Join(dir, "killed", "relay.db")
	must(t, os.Mkdir(filepath.Dir(killed), 0o700))
	d := open(t, path)
	enqueue(t, d, packet("alice", "bob", "in the log alone"))
	for _, from := range append([]string{path, path + "-wal"}, d.LogFiles()...) {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(filepath.Dir(killed), filepath.Base(from)), text, 0o600))
	}
	must(t, d.Close())
	r, err := relaydb.Restore(ctx, copied, killed, true, now)
	must(t, err)
	wantFiles(t, filepath.Dir(killed), "packets.log", "relay.db", "relay.db.lock", filepath.Base(r.Replaced))
	if old, err := relaydb.VerifyFile(ctx, r.Replaced, now); err != nil || old.Entries != 2 || len(old.Problems) > 0 {
		t.Fatalf("the replaced store: %+v, %v", old, err)
	}
}

// TestWhatACutRestoreLeftIsNotPlayedIn: a log that stands beside a store which
// was being made belongs to no other.
func TestWhatACutRestoreLeftIsNotPlayedIn(t *testing.T) {
	dir, path, copied := backedUp(t)
	d := open(t, path)
	enqueue(t, d, packet("alice", "bob", "in the log alone"))
	log, err := os.ReadFile(path + "-wal")
	must(t, err)
	must(t, d.Close())
	target := filepath.Join(dir, "other", "relay.db")
	must(t, os.Mkdir(filepath.Dir(target), 0o700))
	must(t, os.WriteFile(target+".restoring-wal", log, 0o600))
	if _, err = relaydb.Restore(ctx, copied, target, false, now); err != nil {
		t.Fatal(err)
	}
	r, err := relaydb.VerifyFile(ctx, target, now)
	must(t, err)
	if r.Entries != 1 {
		t.Fatalf("%d packets", r.Entries)
	}

	d = open(t, path)
	again := filepath.Join(dir, "again.db")
	must(t, os.WriteFile(again+".partial-wal", log, 0o600))
	must(t, os.WriteFile(again+".partial", log, 0o600))
	b, err := d.Backup(ctx, again, now)
	must(t, err)
	if b.Entries != 2 || !b.Restorable() {
		t.Fatalf("backup %+v", b)
	}
	must(t, d.Close())
	wantFiles(t, dir, "again.db", "copy.db", "other", "packets.log", "relay.db", "relay.db.lock")
}

// TestBackupsOfOneNameAtOnce: one of them is made.
func TestBackupsOfOneNameAtOnce(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := d.Backup(ctx, filepath.Join(dir, "copy.db"), now)
			errs <- err
		}()
	}
	made := 0
	for range cap(errs) {
		switch err := <-errs; {
		case err == nil:
			made++
		case !strings.Contains(err.Error(), "is there already"):
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d were made", made)
	}
	must(t, d.Close())
	wantFiles(t, dir, "copy.db", "relay.db", "relay.db.lock")
}

// TestVerifyLeavesABackupAlone: its bytes and its folder stay as they are.
func TestVerifyLeavesABackupAlone(t *testing.T) {
	dir, path, copied := backedUp(t)
	before, err := os.ReadFile(copied)
	must(t, err)
	_, err = relaydb.VerifyFile(ctx, copied, now)
	must(t, err)
	after, err := os.ReadFile(copied)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the backup changed")
	}
	wantFiles(t, dir, "copy.db", "packets.log", "relay.db", "relay.db.lock")
	d := open(t, path)
	if _, err := relaydb.VerifyFile(ctx, path, now); fault.CodeOf(err) != fault.LockBusy {
		t.Errorf("a store in use: %v", err)
	}
	must(t, d.Close())
}

// TestAStoreBehindALinkIsTheSame: it has one lock, and a restore goes where it
// is.
func TestAStoreBehindALinkIsTheSame(t *testing.T) {
	dir, path, copied := backedUp(t)
	link := filepath.Join(dir, "other", "relay.db")
	must(t, os.Mkdir(filepath.Dir(link), 0o700))
	must(t, os.Symlink(path, link))
	d := open(t, link)
	_, opened := relaydb.Open(ctx, path, now)
	_, verified := relaydb.VerifyFile(ctx, link, now)
	_, restored := relaydb.Restore(ctx, copied, link, true, now)
	for what, err := range map[string]error{"opened": opened, "verified": verified, "restored": restored} {
		if fault.CodeOf(err) != fault.LockBusy {
			t.Errorf("%s while in use: %v", what, err)
		}
	}
	must(t, d.Close())
	r, err := relaydb.Restore(ctx, copied, link, true, now)
	must(t, err)
	if r.Replaced != path+".replaced-"+fmt.Sprint(now) {
		t.Errorf("kept at %s", r.Replaced)
	}
	wantFiles(t, filepath.Dir(link), "relay.db")

	// The folder behind the link is the owner's alone too.
	must(t, os.Chmod(dir, 0o755))
	if _, err := relaydb.Open(ctx, link, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Errorf("in an open folder: %v", err)
	}
}

// TestStoresOfOtherVersionsAndOtherFiles are refused with what they are.
func TestStoresOfOtherVersionsAndOtherFiles(t *testing.T) {
	_, _, copied := backedUp(t)
	db, err := sql.Open("sqlite", copied)
	must(t, err)
	_, err = db.Exec("PRAGMA user_version = 99")
	must(t, err)
	must(t, db.Close())
	other := filepath.Join(filepath.Dir(copied), "other.db")
	must(t, os.WriteFile(other, nil, 0o600))
	for path, want := range map[string]string{copied: "schema version 99, this program knows 3", other: "not the store of a relay"} {
		_, err := relaydb.VerifyFile(ctx, path, now)
		if fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
