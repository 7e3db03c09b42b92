package handler

import (
	"bytes"
	"sync"
)

const (
	// lineMost bounds a line, in bytes: a longer one is passed on in pieces.
	lineMost = 4 << 10
	// linesMost bounds the lines of one run. What says of each whose it is may be
	// many times as long as the line.
	linesMost = 1000
)

// output passes on the lines that one run writes to either of its outputs, as far
// as outputMost and linesMost, and counts the rest: a run that floods keeps nobody waiting, and
// fills neither memory nor a log.
type output struct {
	mu    sync.Mutex
	line  func(string) // gets each line; nil: nobody
	part  []byte       // of a line that has not ended
	total int64
	taken int
	lines int
	over  bool // what comes is late
}

// Write never fails: a run that writes much is not one that fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if o.line == nil || o.over {
		return len(p), nil
	}
	kept := p[:min(len(p), outputMost-o.taken)]
	for len(kept) > 0 && o.lines < linesMost {
		n := bytes.IndexByte(kept, '\n')
		end := n >= 0
		if !end {
			n = len(kept)
		}
		room := lineMost - len(o.part)
		if n > room {
			n, end = room, false
		}
		o.part = append(o.part, kept[:n]...)
		if end {
			n++
		}
		kept = kept[n:]
		o.taken += n
		if end || len(o.part) == lineMost {
			o.flush()
		}
	}
	return len(p), nil
}

func (o *output) flush() {
	o.line(string(o.part))
	o.part = o.part[:0]
	o.lines++
}

// close passes on a last line without an end, and returns how many bytes there
// were, and how many of them were not passed on.
func (o *output) close() (total, left int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	if len(o.part) > 0 {
		o.flush()
	}
	if o.line == nil {
		return o.total, 0
	}
	return o.total, o.total - int64(o.taken)
}
