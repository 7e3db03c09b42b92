package relaydb_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// disk is what would be on the disk after a power cut: the files as they were
// synced last, and what was written since, of which anything may be there.
type disk struct {
	mu      sync.Mutex
	files   map[string]*diskFile // by path; guarded by mu, as what follows
	deleted map[string]*diskFile // may be back: the folder was not synced since
	random  *rand.Rand
}

type diskFile struct {
	synced  []byte
	named   bool // the folder was synced since it was made
	changes []change
}

// change is a write of data at a place, or with nil data a truncation to it.
type change struct {
	data []byte
	at   int64
}

// newDisk begins with the files of a folder as they are.
func newDisk(t *testing.T, dir string, random *rand.Rand) *disk {
	t.Helper()
	d := &disk{files: map[string]*diskFile{}, deleted: map[string]*diskFile{}, random: random}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		d.files[filepath.Join(dir, e.Name())] = &diskFile{synced: content, named: true}
	}
	return d
}

// note follows an operation.
func (d *disk) note(op faultdisk.Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[op.Path]
	if f == nil {
		f = &diskFile{}
		d.files[op.Path] = f
	}
	switch op.Kind {
	case faultdisk.Write:
		f.changes = append(f.changes, change{slices.Clone(op.Data), op.Offset})
	case faultdisk.Truncate:
		f.changes = append(f.changes, change{nil, op.Size})
	case faultdisk.Delete:
		delete(d.files, op.Path)
		d.deleted[op.Path] = f
	case faultdisk.Sync:
		for _, c := range f.changes {
			f.synced = c.apply(f.synced)
		}
		f.changes = nil
		if !f.named {
			// SQLite syncs the folder with the first sync of a file it has made.
			f.named = true
			clear(d.deleted)
		}
	}
}

// cut returns what the disk holds after a power cut now.
func (d *disk) cut() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := map[string][]byte{}
	for path, f := range d.deleted {
		if d.random.IntN(2) == 0 {
			left[path] = f.survives(d.random)
		}
	}
	for path, f := range d.files {
		left[path] = f.survives(d.random)
	}
	return left
}

// sector is what a disk writes as a whole.
const sector = 512

// survives returns the file with nothing, some or all of what was written
// since it was synced, each sector on its own.
func (f *diskFile) survives(random *rand.Rand) []byte {
	content := slices.Clone(f.synced)
	odds := []int{0, 1, 50, 99, 100}[random.IntN(5)]
	for _, c := range f.changes {
		if c.data == nil {
			if random.IntN(100) < odds {
				content = c.apply(content)
			}
			continue
		}
		for at := 0; at < len(c.data); at += sector {
			if random.IntN(100) < odds {
				part := c.data[at:min(at+sector, len(c.data))]
				content = change{part, c.at + int64(at)}.apply(content)
			}
		}
	}
	return content
}

func (c change) apply(content []byte) []byte {
	end := c.at + int64(len(c.data))
	if c.data == nil {
		return append(content, make([]byte, max(0, end-int64(len(content))))...)[:end]
	}
	if missing := end - int64(len(content)); missing > 0 {
		content = append(content, make([]byte, missing)...)
	}
	copy(content[c.at:], c.data)
	return content
}

// lay writes files as they were left into another folder.
func lay(t *testing.T, dir string, left map[string][]byte) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	for _, path := range slices.Sorted(maps.Keys(left)) {
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), left[path], 0o600))
	}
}
