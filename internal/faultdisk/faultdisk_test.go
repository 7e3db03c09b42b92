package faultdisk_test

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// TestWatch sees the operations of a commit on the watched file only, and
// makes one of them fail.
func TestWatch(t *testing.T) {
	watched, other := t.TempDir(), t.TempDir()
	var mu sync.Mutex
	seen := map[faultdisk.Kind]int{}
	answer := faultdisk.OK
	stop := faultdisk.Watch(watched, func(op faultdisk.Op) int32 {
		mu.Lock()
		defer mu.Unlock()
		seen[op.Kind]++
		if filepath.Dir(op.Path) != watched {
			t.Errorf("a hook for %s saw %s", watched, op.Path)
		}
		if op.Kind == faultdisk.Sync {
			return answer
		}
		return faultdisk.OK
	})
	defer stop()

	for _, dir := range []string{watched, other} {
		db, err := sql.Open("sqlite", filepath.Join(dir, "test.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("CREATE TABLE t (x)"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		answer = faultdisk.FsyncFailed
		mu.Unlock()
		_, err = db.Exec("INSERT INTO t VALUES (1)")
		if failed := err != nil; failed != (dir == watched) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, kind := range []faultdisk.Kind{faultdisk.Write, faultdisk.Sync, faultdisk.Delete} {
		if seen[kind] == 0 {
			t.Errorf("no %s was seen", kind)
		}
	}
}
