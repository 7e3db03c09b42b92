package relaydb

import (
	"context"
	"math"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// MoveAll moves all packets out of the packet log into the database.
func (d *DB) MoveAll(ctx context.Context) error {
	for more := true; more; {
		if err := d.write(ctx, func(t *tx) error {
			var err error
			more, err = t.moveSome(packetlog.Segment{End: math.MaxInt64})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// WithSegments returns options with segments of the packet log of a size.
func (o Options) WithSegments(size int64) Options {
	o.segmentSize = size
	return o
}

// WithGroupsAhead returns options with which decisions go on for a number of
// groups while the disk does not answer.
func (o Options) WithGroupsAhead(n int) Options {
	o.groupsAhead = n
	return o
}

// LogFiles returns the files of the packet log.
func (d *DB) LogFiles() []string { return d.log.Paths() }

// Tidy returns when what was deleted is erased, and what is left of sparse
// segments moved, when the store is closed, or when neither happens for long.
func (d *DB) Tidy() {
	for deadline := time.Now().Add(30 * time.Second); d.untidy() && time.Now().Before(deadline); {
		d.eraser.note()
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *DB) untidy() bool {
	if some, err := d.eraseable(); err != nil || some {
		return err == nil
	}
	for _, s := range d.log.Segments() {
		if live := d.usage.of(s); !s.Last && s.End <= d.log.Synced() && live*sparse < s.End-s.Start {
			return true
		}
	}
	return false
}

// MoveOne moves what is left of the first sparse segment.
func (d *DB) MoveOne() { d.eraser.moveOne() }

// HandedOver returns how many groups of packets wait for the syncer, those
// that it is at apart.
func (d *DB) HandedOver() int { return len(d.syncer.groups) }

// Turn tells the moments apart at which the eraser has begun to wait for
// readers.
func (d *DB) Turn() any {
	d.grace.mu.Lock()
	defer d.grace.mu.Unlock()
	return d.grace.current
}
