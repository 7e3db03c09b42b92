package relaydb

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

const (
	// eraseWait is how long the bytes of deleted packets stay in the packet log,
	// so that many are overwritten and synced together.
	eraseWait = 2 * time.Second
	// tidyEvery is the time to the next look without a deletion.
	tidyEvery = time.Minute
	// eraseBatch bounds the packets that are overwritten together.
	eraseBatch = 1024
)

// eraser takes the bytes of deleted packets out of the packet log, and removes
// its segments. What is to be erased are rows, so that a crash forgets none.
type eraser struct {
	d     *DB
	due   chan struct{}   // holds a token when something was deleted
	asked chan chan error // who waits for all to be erased
	last  chan emptying   // for the writer
}

func newEraser(d *DB) *eraser {
	return &eraser{d: d, due: make(chan struct{}, 1), asked: make(chan chan error), last: make(chan emptying)}
}

// note follows a commit that has deleted packets of the log.
func (e *eraser) note() {
	select {
	case e.due <- struct{}{}:
	default:
	}
}

// loop works until the store closes.
func (e *eraser) loop() {
	timer := time.NewTimer(0) // what a crash has left over
	defer timer.Stop()
	for {
		select {
		case <-e.due:
			if !e.pause() {
				return
			}
			e.tidy()
		case <-timer.C:
			e.tidy()
			timer.Reset(tidyEvery)
		case done := <-e.asked:
			done <- e.erase()
		case <-e.d.closing:
			return
		}
	}
}

// pause lets more gather, answers who asks meanwhile, and reports whether the
// store is still open.
func (e *eraser) pause() bool {
	timer := time.NewTimer(eraseWait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case done := <-e.asked:
			done <- e.erase()
		case <-e.d.closing:
			return false
		}
	}
}

// tidy erases what was deleted and moves what is left of sparse segments. What
// fails is tried again later.
func (e *eraser) tidy() {
	if e.erase() != nil {
		return
	}
	for e.moveOne() {
		if e.erase() != nil {
			return
		}
	}
}

// flush returns when nothing that was deleted before is left in the log. Where
// a reader is in the way for long it leaves that to the loop.
func (e *eraser) flush(ctx context.Context) error {
	return askToErase(ctx, e.asked, e.d.closing)
}

// finish is flush for a store that closes: nobody may ever open it again. What
// fails is left to whoever does.
func (e *eraser) finish() {
	if e.d.state.get() != nil {
		return
	}
	if some, err := e.d.eraseable(); err == nil && some {
		_ = e.flush(context.Background())
	}
}

// erase overwrites what was deleted, and removes segments of which nothing is
// left.
func (e *eraser) erase() error {
	for last := true; ; {
		some, err := e.d.eraseable()
		if err != nil || !some {
			return err
		}
		work, err := e.gather(last)
		if err != nil {
			return err
		}
		if work.empty() {
			e.note() // what it is of has not reached the disk yet
			return nil
		}
		if !e.d.grace.wait(e.d.closing) {
			return errClosed
		}
		last, err = e.overwrite(&work)
		if errors.Is(err, packetlog.ErrFull) {
			return err // a file system that never writes in place
		}
		if err != nil {
			return e.d.fail(err)
		}
		failpoint.Here(failpoint.Erased)
		if err := e.settle(work); err != nil {
			return err
		}
	}
}

// erasure is what can be erased.
type erasure struct {
	dead   []packetlog.Segment // of these only the last of all may be the log's last
	ranges []packetlog.Range
}

func (e erasure) empty() bool { return len(e.dead)+len(e.ranges) == 0 }

// gather looks for what can be erased, by a decision of its own: what was
// deleted before is then durably so, and the log durably a part of the store,
// so that replaying never meets what is missing in it. The last segment goes as
// a whole only where last says so.
func (e *eraser) gather(last bool) (work erasure, err error) {
	err = e.d.write(context.Background(), func(t *tx) error {
		work = erasure{}
		// A commit that writes nothing leaves those of packets alone before it
		// where they are, which need not be the disk.
		if err := t.touch(); err != nil {
			return err
		}
		synced := t.log.Synced()
		for _, s := range t.log.Segments() {
			if removable(t.log, t.usage, s) && s.End <= synced && (last || !s.Last) {
				work.dead = append(work.dead, s)
			}
		}
		s, err := t.conn.Prepare("SELECT place, size FROM erasures WHERE place < ? LIMIT ?")
		if err != nil {
			return err
		}
		s.BindInt(1, synced)
		s.BindInt(2, eraseBatch)
		defer s.Reset()
		for {
			ok, err := s.Step()
			if err != nil || !ok {
				return err
			}
			r := packetlog.Range{Place: s.Int(0), Size: s.Int(1)}
			if !inside(r, work.dead) {
				work.ranges = append(work.ranges, r)
			}
		}
	})
	return work, err
}

// touch has a commit write something: one that changes nothing, or a row to
// what it is, does not reach the disk.
func (t *tx) touch() error {
	if err := t.conn.Command("INSERT INTO erasures (place, size) VALUES (-1, 0)"); err != nil {
		return err
	}
	return t.conn.Command("DELETE FROM erasures WHERE place = -1")
}

func inside(r packetlog.Range, segments []packetlog.Segment) bool {
	for _, s := range segments {
		if r.Place >= s.Start && r.Place < s.End {
			return true
		}
	}
	return false
}

// overwrite erases. When something came into the last segment meanwhile it
// takes that out of work, and says so.
func (e *eraser) overwrite(work *erasure) (all bool, err error) {
	all = true
	for i, s := range work.dead {
		if s.Last {
			if all, err = e.empty(s); !all {
				work.dead = work.dead[:i]
			}
		} else if err = e.d.log.Remove(s.Start); err == nil {
			e.d.usage.forget(s)
		}
		if err != nil {
			return false, err
		}
	}
	return all, e.d.log.Erase(work.ranges)
}

// settle notes that something is erased.
func (e *eraser) settle(work erasure) error {
	return e.d.write(context.Background(), func(t *tx) error {
		for _, s := range work.dead {
			if _, err := t.exec("DELETE FROM erasures WHERE place >= ? AND place < ?", s.Start, s.End); err != nil {
				return err
			}
		}
		for _, r := range work.ranges {
			if _, err := t.exec("DELETE FROM erasures WHERE place = ?", r.Place); err != nil {
				return err
			}
		}
		return nil
	})
}

// eraseable looks, without a decision, whether there may be something to erase.
func (d *DB) eraseable() (some bool, err error) {
	for _, s := range d.log.Segments() {
		if removable(d.log, d.usage, s) {
			return true, nil
		}
	}
	_, err = d.read(context.Background(), "SELECT EXISTS (SELECT 1 FROM erasures)", nil, &some)
	return some, err
}

// eraseLater leaves a packet in the log, and what the log says of it, to the
// eraser.
func (t *tx) eraseLater(v victim) error {
	if _, err := t.exec("INSERT INTO erasures (place, size) VALUES (?, ?)", v.place, v.size+saidSize); err != nil {
		return err
	}
	t.uses = append(t.uses, used{v.place, -v.size - saidSize})
	t.erasing = true
	return nil
}
