package relaydb

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

const (
	// moveBatch and moveBytes bound what one transaction moves out of the log.
	moveBatch = 32
	moveBytes = 512 << 10
	// sparse is the part of a segment, as 1/sparse, below which what is left of it
	// moves into the database: the log is never longer than that many times what
	// is queued, one segment apart.
	sparse = 2
)

// moveOne moves what is left of a sparse segment into the database, and reports
// whether it did.
func (e *eraser) moveOne() bool {
	for _, s := range e.d.log.Segments() {
		live := e.d.usage.of(s)
		if s.Last || live == 0 || live*sparse >= s.End-s.Start {
			continue
		}
		if s.End > e.d.log.Synced() {
			continue // what moves is seen at once, and what came before it may not be yet
		}
		if e.move(s) == nil && e.d.usage.of(s) == 0 {
			return true
		}
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
