package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// disk stands between the store of a host and its files. It fails for some
// writes, or dies at one, and the host with it: what was written before is all
// that is left.
type disk struct {
	mu      sync.Mutex // SQLite may write on other goroutines
	ops     int        // in this step
	written int        // operations ever
	dieAt   int        // the operation before which the host dies, 0: none
	failAt  int        // the first operation that fails, 0: none
	fails   int        // how many operations fail from there
	code    int32      // what they fail with
	dead    bool
	power   bool              // with the host goes the power: what was not synced is lost
	synced  map[string][]byte // the files as they were synced last, by name, for that
	failed  bool              // some have failed in this step
}

func (d *disk) hook(w *world, op faultdisk.Op) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return faultdisk.WriteFailed
	}
	d.ops++
	d.written++
	switch {
	case d.dieAt > 0 && d.ops >= d.dieAt:
		w.note("   the host dies before operation %d of its disk, %s", d.ops, describe(op))
		w.count("died at " + describe(op))
		d.dead = true
		return faultdisk.WriteFailed
	case d.failAt > 0 && d.ops >= d.failAt && d.ops < d.failAt+d.fails:
		w.note("   operation %d of its disk fails, %s", d.ops, describe(op))
		w.count("failed at " + describe(op))
		d.failed = true
		return d.code
	}
	if d.power && op.Kind == faultdisk.Sync {
		d.note(op.Path)
	}
	return faultdisk.OK
}

// note keeps a file as it is: it is durable now.
func (d *disk) note(path string) {
	data, err := os.ReadFile(path)
	if err == nil {
		d.synced[filepath.Base(path)] = data
	}
}

// cutPower makes the death of this step one by a power cut. What was written
// before the step is durable.
func (h *host) cutPower() {
	h.disk.power, h.disk.synced = true, map[string][]byte{}
	for _, name := range files {
		h.disk.note(filepath.Join(h.dir, name))
	}
}

// files are those of a store.
var files = []string{"store.db", "store.db-wal"}

func describe(op faultdisk.Op) string {
	return fmt.Sprintf("%s of %s", op.Kind, filepath.Base(op.Path))
}

// The operations of a step of which one may be chosen: an attempt has some
// two dozens.
const chosenFrom = 25

// expose draws what happens to a host during a step.
func (h *host) expose(weather weather) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	w := h.w
	d := h.disk
	d.ops, d.dieAt, d.failAt, d.fails, d.failed, d.power = 0, 0, 0, 0, false, false
	h.requests, h.dieBefore, h.dieAfter = 0, 0, 0
	if w.chance(weather.death) {
		switch w.rand.IntN(4) {
		case 0:
			h.dieBefore = 1 + w.rand.IntN(5)
		case 1:
			h.dieAfter = 1 + w.rand.IntN(5)
		default:
			d.dieAt = 1 + w.rand.IntN(chosenFrom)
		}
		if w.chance(0.4) {
			h.cutPower()
		}
	}
	if w.chance(weather.disk) {
		d.failAt, d.fails = 1+w.rand.IntN(chosenFrom), 1+w.rand.IntN(4)
		codes := []int32{faultdisk.Full, faultdisk.WriteFailed, faultdisk.FsyncFailed}
		d.code = codes[w.rand.IntN(len(codes))]
	}
}

// shelter ends what expose began.
func (h *host) shelter() {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	h.disk.dieAt, h.disk.failAt = 0, 0
	h.dieBefore, h.dieAfter = 0, 0
}
