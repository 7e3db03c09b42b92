package relaydb

import (
	"sync"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// usage is how many bytes of each segment of the packet log belong to entries,
// by what is committed.
type usage struct {
	mu   sync.Mutex
	live map[int64]int64 // by start; guarded by mu
}

// used is a part of the log that an entry got, or with a negative size lost.
type used struct{ place, size int64 }

const selectUsed = "SELECT coalesce(sum(size + ?), 0) FROM entries WHERE place >= ? AND place < ?"

// init asks the database.
func (u *usage) init(t *tx) error {
	u.live = map[int64]int64{}
	for _, s := range t.log.Segments() {
		var size int64
		if _, err := t.row(selectUsed, []any{saidSize, s.Start, s.End}, &size); err != nil {
			return err
		}
		u.live[s.Start] = size
	}
	return nil
}

// change follows a commit.
func (u *usage) change(log *packetlog.Log, changes []used) {
	if len(changes) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range changes {
		if start, ok := log.SegmentOf(c.place); ok {
			u.live[start] += c.size
		}
	}
}

func (u *usage) of(s packetlog.Segment) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.live[s.Start]
}

func (u *usage) forget(s packetlog.Segment) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.live, s.Start)
}
