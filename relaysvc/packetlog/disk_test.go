package packetlog_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// disk is what would be on the disk after a power cut: the files as they were
// synced last, and what was changed since, of which anything may be there.
type disk struct {
	files   map[string]*diskFile // by path
	deleted map[string]*diskFile // may be back: the folder was not synced since
	random  *rand.Rand
	left    int               // changes until the power goes
	after   map[string][]byte // what a power cut has left, nil while there is power
}

type diskFile struct {
	synced  []byte
	durable bool // it was synced once
	named   bool // so was the folder since
	changes []packetlog.Change
}

var errPower = errors.New("the power is gone")

// newDisk begins with the files of a folder as they are.
func newDisk(t *testing.T, dir string, left int, random *rand.Rand) *disk {
	t.Helper()
	d := &disk{files: map[string]*diskFile{}, deleted: map[string]*diskFile{}, random: random, left: left}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		d.files[path] = &diskFile{synced: readFile(t, path), durable: true, named: true}
	}
	return d
}

// before takes part in the change that the log is about to make.
func (d *disk) before(c packetlog.Change) error {
	if d.after != nil {
		return errPower
	}
	d.settle()
	if d.left--; d.left < 0 {
		if c.Kind != packetlog.Sync { // under way
			d.note(c)
		}
		d.after = d.cut()
		return errPower
	}
	d.note(c)
	return nil
}

// settle notes what followed the last change: the log syncs the folder after
// the first sync of a file, and after it has deleted one.
func (d *disk) settle() {
	clear(d.deleted)
	for _, f := range d.files {
		f.named = f.named || f.durable
	}
}

func (d *disk) note(c packetlog.Change) {
	f := d.files[c.Path]
	if f == nil {
		f = &diskFile{}
		d.files[c.Path] = f
	}
	switch c.Kind {
	case packetlog.Delete:
		delete(d.files, c.Path)
		d.deleted[c.Path] = f
	case packetlog.Sync:
		for _, c := range f.changes {
			f.synced = apply(f.synced, c)
		}
		f.changes, f.durable = nil, true
	default:
		c.Data = slices.Clone(c.Data)
		f.changes = append(f.changes, c)
	}
}

// cut returns what the disk holds after a power cut now.
func (d *disk) cut() map[string][]byte {
	left := map[string][]byte{}
	for path, f := range d.deleted {
		if d.random.IntN(2) == 0 {
			left[path] = f.survives(d.random)
		}
	}
	for path, f := range d.files {
		if f.named || d.random.IntN(2) == 0 {
			left[path] = f.survives(d.random)
		}
	}
	return left
}

// sector is what a disk writes as a whole.
const sector = 512

// survives returns the file with nothing, some or all of what was changed since
// it was synced, each sector on its own. The length may be there without the
// bytes.
func (f *diskFile) survives(random *rand.Rand) []byte {
	content := slices.Clone(f.synced)
	odds := []int{0, 5, 50, 95, 100}[random.IntN(5)]
	for _, c := range f.changes {
		if c.Kind == packetlog.Truncate {
			if random.IntN(100) < odds {
				content = apply(content, c)
			}
			continue
		}
		if end := c.Offset + int64(len(c.Data)); end > int64(len(content)) && random.IntN(4) == 0 {
			content = apply(content, packetlog.Change{Kind: packetlog.Truncate, Size: end})
		}
		for at := int64(0); at < int64(len(c.Data)); {
			end := min(at+sector-(c.Offset+at)%sector, int64(len(c.Data)))
			if random.IntN(100) < odds {
				content = apply(content, packetlog.Change{Kind: packetlog.Write, Data: c.Data[at:end], Offset: c.Offset + at})
			}
			at = end
		}
	}
	return content
}

func apply(content []byte, c packetlog.Change) []byte {
	size := c.Size
	if c.Kind == packetlog.Write {
		size = max(c.Offset+int64(len(c.Data)), int64(len(content)))
	}
	content = append(content, make([]byte, max(0, size-int64(len(content))))...)[:size]
	copy(content[c.Offset:], c.Data)
	return content
}

// lay writes files as they were left into another folder.
func lay(t *testing.T, dir string, left map[string][]byte) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	for _, path := range slices.Sorted(maps.Keys(left)) {
		writeFile(t, filepath.Join(dir, filepath.Base(path)), left[path])
	}
}
