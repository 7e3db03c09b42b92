package relaydb

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

const (
	// eraseWait is how long the bytes of deleted packets stay in the packet log,
	// so that many are overwritten and synced together.
	eraseWait = 2 * time.Second
	// eraseBatch bounds the packets that are overwritten together.
	eraseBatch = 1024
	// moveBatch and moveBytes bound what one transaction moves out of the log.
	moveBatch = 32
	moveBytes = 512 << 10
	// sparse is the part of a segment, as 1/sparse, below which what is left of it
	// moves into the database: the log is never longer than that many times what
	// is queued, one segment apart.
	sparse = 2
)

// eraser takes the bytes of deleted packets out of the packet log, and removes
// its segments. What is to be erased are rows, so that a crash forgets none.
type eraser struct {
	d     *DB
	due   chan struct{}   // holds a token when something was deleted
	asked chan chan error // who waits for all to be erased
}

func newEraser(d *DB) *eraser {
	return &eraser{d: d, due: make(chan struct{}, 1), asked: make(chan chan error)}
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
			if !sleep(eraseWait, e.d.closing, e.asked, e.erase) {
				return
			}
			e.tidy()
		case <-timer.C:
			e.tidy()
		case done := <-e.asked:
			done <- e.erase()
		case <-e.d.closing:
			return
		}
	}
}

// sleep waits, answers who asks meanwhile, and reports whether the store is
// still open.
func sleep(d time.Duration, closing <-chan struct{}, asked <-chan chan error, answer func() error) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case done := <-asked:
			done <- answer()
		case <-closing:
			return false
		}
	}
}

// tidy erases what was deleted and moves what is left of sparse segments. What
// fails is tried again with the next deletion.
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
	done := make(chan error, 1)
	patience := time.NewTimer(erasePatience)
	defer patience.Stop()
	select {
	case e.asked <- done:
	case <-patience.C:
		return nil
	case <-e.d.closing:
		return errClosed
	case <-ctx.Done():
		return storage(ctx.Err())
	}
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return nil
	case <-ctx.Done():
		return storage(ctx.Err())
	}
}

// erase overwrites what was deleted, and removes segments of which nothing is
// left.
func (e *eraser) erase() error {
	for {
		work, err := e.gather()
		if err != nil || work.empty() {
			return err
		}
		if !e.d.grace.wait(e.d.closing) {
			return errClosed
		}
		if err := e.overwrite(work); err != nil {
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
	dead   []packetlog.Segment
	ranges []packetlog.Range
}

func (e erasure) empty() bool { return len(e.dead)+len(e.ranges) == 0 }

// gather looks for what can be erased, by a decision of its own: what was
// deleted before is then durably so, and the log durably a part of the store,
// so that replaying never meets what is missing in it.
func (e *eraser) gather() (work erasure, err error) {
	var some bool
	if err := e.d.eraseable(&some); err != nil || !some {
		return work, err
	}
	err = e.d.write(context.Background(), func(t *tx) error {
		work = erasure{}
		synced := t.log.Synced()
		for _, s := range t.log.Segments() {
			if !s.Last && s.End <= synced && t.usage.of(s) == 0 {
				work.dead = append(work.dead, s)
			}
		}
		s, err := t.conn.prepare("SELECT place, size FROM erasures WHERE place < ? LIMIT ?")
		if err != nil {
			return err
		}
		s.int(1, synced)
		s.int(2, eraseBatch)
		defer s.reset()
		for {
			ok, err := s.step()
			if err != nil || !ok {
				return err
			}
			r := packetlog.Range{Place: s.intAt(0), Size: s.intAt(1)}
			if !inside(r, work.dead) {
				work.ranges = append(work.ranges, r)
			}
		}
	})
	return work, err
}

func inside(r packetlog.Range, segments []packetlog.Segment) bool {
	for _, s := range segments {
		if r.Place >= s.Start && r.Place < s.End {
			return true
		}
	}
	return false
}

func (e *eraser) overwrite(work erasure) error {
	for _, s := range work.dead {
		if err := e.d.log.Remove(s.Start); err != nil {
			return err
		}
		e.d.usage.forget(s)
	}
	return e.d.log.Erase(work.ranges)
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
func (d *DB) eraseable(some *bool) error {
	for _, s := range d.log.Segments() {
		if !s.Last && d.usage.of(s) == 0 {
			*some = true
			return nil
		}
	}
	_, err := d.read(context.Background(), "SELECT EXISTS (SELECT 1 FROM erasures)", nil, some)
	return err
}

// moveOne moves what is left of the first sparse segment into the database, and
// reports whether there was one.
func (e *eraser) moveOne() bool {
	for _, s := range e.d.log.Segments() {
		live := e.d.usage.of(s)
		if s.Last || live == 0 || live*sparse >= s.End-s.Start {
			continue
		}
		return e.move(s) == nil
	}
	return false
}

func (e *eraser) move(s packetlog.Segment) error {
	for more := true; more; {
		if err := e.d.write(context.Background(), func(t *tx) error {
			var err error
			more, err = t.moveSome(s)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

const (
	selectMovable = "SELECT identity, generation, seq, size, body, stranger, place FROM entries WHERE place >= ? AND place < ? ORDER BY place LIMIT 32"
	moveEntry     = "UPDATE entries SET place = NULL, body = ? WHERE identity = ? AND generation = ? AND seq = ?"
)

// moveSome moves the next packets of a segment and reports whether there may be
// others.
func (t *tx) moveSome(s packetlog.Segment) (more bool, err error) {
	victims, _, err := t.victims(selectMovable, s.Start, s.End)
	if err != nil {
		return false, err
	}
	size := int64(0)
	for _, v := range victims {
		if size += v.size; size > moveBytes && size > v.size {
			return true, nil
		}
		if err := t.moveBody(v); err != nil {
			return false, err
		}
	}
	return len(victims) == moveBatch, nil
}

// moveBody moves one packet as it is: whether it is the one that was queued is
// found out when it is read.
func (t *tx) moveBody(v victim) error {
	id, err := t.copyBody(v)
	if err != nil {
		return err
	}
	if _, err := t.exec(moveEntry, id, v.identity, v.generation, v.seq); err != nil {
		return err
	}
	failpoint.Here(failpoint.Move)
	return t.eraseLater(v)
}

// copyBody copies what the log has of a packet into a body, and returns its
// row. There is none where the log has nothing.
func (t *tx) copyBody(v victim) (id int64, err error) {
	id = t.nextBody
	t.nextBody++
	packet := make([]byte, v.size)
	err = t.log.ReadAt(packet, v.place)
	if errors.Is(err, packetlog.ErrMissing) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	_, err = t.exec(insertBody, id, packet)
	return id, err
}

// eraseLater leaves a part of the log to the eraser.
func (t *tx) eraseLater(v victim) error {
	if _, err := t.exec("INSERT INTO erasures (place, size) VALUES (?, ?)", v.place, v.size); err != nil {
		return err
	}
	t.uses = append(t.uses, used{v.place, -v.size})
	t.erasing = true
	return nil
}

// fail breaks the store because the disk failed below the packet log.
func (d *DB) fail(err error) error {
	if fault.CodeOf(err) != fault.StorageFailed {
		err = fault.Wrap(fault.StorageFailed, err)
	}
	d.state.set(err)
	d.keeper.settle()
	d.state.tell()
	return err
}

func isPacket(packet []byte, f *located) bool {
	return int64(len(packet)) == f.size && sha256.Sum256(packet) == f.digest
}
