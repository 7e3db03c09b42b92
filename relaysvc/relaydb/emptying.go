package relaydb

import "github.com/ace-toolkit/ace/relaysvc/packetlog"

// longLast is the part of a segment's size, as 1/longLast, from which the log's
// last segment is emptied when nothing in it is queued: 1 MiB. Below it, what
// was deleted is overwritten where it is, and the file goes on.
const longLast = 64

// removable reports whether a segment is of no more use.
func removable(log *packetlog.Log, u *usage, s packetlog.Segment) bool {
	if s.Last && s.End-s.Start < log.SegmentSize()/longLast {
		return false
	}
	return u.of(s) == 0
}

// emptying asks the writer for the log's last segment to be emptied.
type emptying struct {
	segment packetlog.Segment
	done    chan emptied
}

type emptied struct {
	done bool
	err  error
}

// empty empties the last segment of the log, unless packets have come into it:
// only the writer knows.
func (e *eraser) empty(s packetlog.Segment) (done bool, err error) {
	r := emptying{segment: s, done: make(chan emptied, 1)}
	select {
	case e.last <- r:
		answer := <-r.done
		return answer.done, answer.err
	case <-e.d.closing:
		return false, errClosed
	}
}

// emptyLast empties the last segment between two groups, when the log still ends
// where it did.
func (w *writer) emptyLast(s packetlog.Segment) emptied {
	if err := w.state.get(); err != nil || w.tx.log.End() != s.End {
		return emptied{err: err}
	}
	err := w.tx.log.Empty()
	return emptied{done: err == nil, err: err}
}
