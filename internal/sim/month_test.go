package sim

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
)

// TestMonthIsFlat: what an endpoint keeps for a time is gone after it, so that a
// month of steady traffic adds to its store what it was sent to read and nothing
// else, and nothing to its memory (06#deduplication, 06#outbox-sender,
// 04#prekey).
func TestMonthIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("65 days take some seconds")
	}
	stages := newStages(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plan{})
		defer w.close()
		w.calm = true
		stages.set(w)
		// What is kept longest is kept for 30 days.
		w.live(35)
		before := w.hosts[0].weigh()
		w.live(30)
		after := w.hosts[0].weigh()
		t.Logf("after 35 days %+v, after 65 days %+v", before, after)
		if w.broken != nil {
			t.Fatal(w.broken)
		}
		switch read := after.messages - before.messages; {
		case read < 230:
			t.Errorf("only %d messages came in a month", read)
		case after.outbox > before.outbox+perRound || after.seen > before.seen+2*perRound:
			t.Errorf("what is kept for a time grows: %+v, and then %+v", before, after)
		case before.handlings > 0 || after.handlings > 0:
			t.Errorf("attempts are kept of messages that are handled: %+v, and then %+v", before, after)
		case after.bytes > before.bytes+int64(read)*mostPerMessage+slack:
			t.Errorf("the files grow by %d bytes for %d messages", after.bytes-before.bytes, read)
		case after.heap > before.heap+1<<20:
			t.Errorf("the heap grows from %d to %d bytes", before.heap, after.heap)
		}
	})
}

const (
	perRound       = 4   // messages, in each direction
	mostPerMessage = 450 // bytes of a row with its keys in two indexes
	slack          = 64 << 10
)

// live is some days in which two hosts write to each other and hand what they read
// to handlers, which fail, hang and die with their host as in any world.
func (w *world) live(days int) {
	for range days * 2 {
		if w.broken != nil {
			return
		}
		w.now += day / 2
		w.draw(uint64(w.now))
		for n, h := range w.hosts {
			h.upkeep()
			for range perRound {
				h.send(w.hosts[1-n])
			}
		}
		for range 2 { // the messages, and then their receipts
			for _, h := range w.hosts {
				h.expect("pull", h.pull(0))
			}
		}
		for _, h := range w.hosts {
			h.runHandlersOn()
			h.settleStep()
		}
		w.forgetPast()
	}
	w.serveToTheEnd()
}

// forgetPast drops what the onlooker knows of messages that are over.
func (w *world) forgetPast() {
	w.trace, w.receipts = nil, nil
	clear(w.packets)
	for _, h := range w.hosts {
		clear(h.told)
		clear(h.fetches)
		clear(h.receipted)
		clear(h.keys)
	}
}

// weight is what an endpoint has come to.
type weight struct {
	messages, outbox, seen int   // rows
	handlings              int   // rows of attempts at messages
	bytes                  int64 // of its files
	heap                   uint64
}

func (h *host) weigh() (x weight) {
	v := h.load()
	x.messages, x.outbox, x.seen, x.handlings = len(v.messages), len(v.outbox), len(v.seen), len(v.handlings)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	x.heap = m.HeapAlloc
	// The files are as they are after a restart: the write-ahead log is in them.
	h.takeUp()
	err := filepath.WalkDir(h.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		x.bytes += info.Size()
		return err
	})
	if err != nil {
		h.w.t.Fatal(err)
	}
	return x
}
