package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// readOnlyStore makes a store in a folder to which nothing can be written, with
// one more file in it, and returns the folder.
func readOnlyStore(t *testing.T, s *stage, more string) string {
	t.Helper()
	dir := filepath.Join(s.dir, "store")
	must(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700"); err != nil && os.Geteuid() == 0 {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	db, err := relaydb.Open(t.Context(), filepath.Join(dir, "relay.db"), 1)
	must(t, err)
	must(t, db.Close())
	if more != "" {
		mustWrite(t, filepath.Join(dir, more), "something")
	}
	must(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if os.Geteuid() == 0 { // to whom modes do not matter
		must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}
	return dir
}

// TestReadOnlyStore is verified where it is and copied from there. That the
// copy is on no record is told.
func TestReadOnlyStore(t *testing.T) {
	s := newStage(t)
	dir, target := readOnlyStore(t, s, ""), filepath.Join(s.dir, "copy")
	if out := s.must("relay", "verify", "--data", dir, "--json"); !strings.Contains(out, `"whole":true`) {
		t.Errorf("verified: %s", out)
	}
	r := s.try("relay", "backup", "--data", dir, "-o", target, "--json")
	if r.status != exitOK || !strings.Contains(r.out, `"whole":true`) || !strings.Contains(r.err, "audit.log") {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	s.must("relay", "verify", target)
}

// TestReadOnlyStoreOfAKilledRelay says where to check it.
func TestReadOnlyStoreOfAKilledRelay(t *testing.T) {
	s := newStage(t)
	dir := readOnlyStore(t, s, "relay.db-wal")
	for _, command := range [][]string{{"verify"}, {"backup", "-o", filepath.Join(s.dir, "copy")}} {
		r := s.try(append(append([]string{"relay"}, command...), "--data", dir)...)
		if r.status != exitStorage || !strings.Contains(r.err, "relay.db-wal has to be taken in first") || !strings.Contains(r.err, "hint: copy the folder") {
			t.Errorf("%s: status %d: %s", command[0], r.status, r.err)
		}
	}
}
