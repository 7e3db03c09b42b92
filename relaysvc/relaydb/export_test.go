package relaydb

import (
	"context"
	"math"

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

// LogFiles returns the files of the packet log.
func (d *DB) LogFiles() []string { return d.log.Paths() }

// Tidy erases what was deleted, and moves what is left of sparse segments.
func (d *DB) Tidy() { d.eraser.tidy() }
