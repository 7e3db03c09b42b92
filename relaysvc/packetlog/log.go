// Package packetlog is the log in which the relay's packets are kept: each is
// written once, at the end of a file, and stays there until it is erased. What
// is queued for whom is the store's to know; the log knows bytes by their
// place, and what the store said of them when they came, so that the store can
// learn it again after a power cut.
//
// Packets that become durable together are a group:
//
//	header   32 bytes: mark, checksum, place, lengths
//	bodies   one after the other, each followed by what the store said of it
//	frames   for each body its length, that of what was said, and their checksum
//
// The checksum of the header covers the frames. What is to be forgotten of a
// packet is one part of the log. Groups follow each other in
// segments, files of 64 MiB that are named by the place of their first byte;
// places count through all segments and are never given twice.
//
// One goroutine appends, one syncs, and any may read.
package packetlog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// SegmentSize is the length from which a segment is followed by another, in
// bytes.
const SegmentSize = 64 << 20

// ErrMissing is the error of a place that the log does not have.
var ErrMissing = errors.New("the packet log does not have it")

// ErrFull is the error of a write for which the disk has no room.
var ErrFull = errors.New("the disk is full")

// ErrSync is the error of a sync. What the files hold is then unknown, and a
// second attempt may answer well for what was lost.
var ErrSync = errors.New("the disk did not take it")

// ID tells the logs of different stores apart.
type ID [16]byte

// Kind is what is about to happen to a file.
type Kind string

// The changes of files.
const (
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Delete   Kind = "delete"
)

// Change is about to happen to the file at Path.
type Change struct {
	Kind   Kind
	Path   string
	Data   []byte // of Write, at Offset
	Offset int64
	Size   int64 // of the file after Truncate
}

// Options are what a log may be opened with.
type Options struct {
	// Before is asked before each change. An error is what comes of it instead.
	Before func(Change) error
	// ReadOnly is for a log of which nothing is to be changed.
	ReadOnly bool
	// SegmentSize is for tests that want many. Default: SegmentSize.
	SegmentSize int64
}

func (o Options) flag() int {
	if o.ReadOnly {
		return os.O_RDONLY
	}
	return os.O_RDWR
}

// Log is an open log.
type Log struct {
	dir     string
	id      ID
	options Options

	mu       sync.RWMutex
	segments []*segment // by start; guarded by mu, as what follows
	unsynced []*segment // something was appended since they were synced

	end    int64        // where the next group may begin; of the goroutine that appends
	synced atomic.Int64 // what is before it has reached the disk
	closed atomic.Bool
	failed error // of a sync; of the goroutine that syncs
}

// Open opens the log of a store, of which a folder may hold several. It reads
// nothing before [Log.Recover] is called. Code: storage_failed.
func Open(dir string, id ID, o Options) (*Log, error) {
	if o.Before == nil {
		o.Before = func(Change) error { return nil }
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = SegmentSize
	}
	l := &Log{dir: dir, id: id, options: o}
	files, err := os.ReadDir(dir) // sorted: by start
	if err != nil {
		return nil, failure(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), l.prefix()) || !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		s, err := openSegment(filepath.Join(dir, f.Name()), id, o.flag())
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if s != nil {
			l.segments = append(l.segments, s)
		}
	}
	return l, nil
}

// Close closes the files.
func (l *Log) Close() error {
	l.closed.Store(true) // first: what is not found from here on may be there
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, s := range l.segments {
		err = errors.Join(err, s.file.Close())
	}
	l.segments = nil
	return failure(err)
}

// Synced returns the place before which everything has reached the disk.
func (l *Log) Synced() int64 { return l.synced.Load() }

// Sync returns when all groups that were accepted before end at or before
// through have reached the disk. One that failed lets no other succeed: the
// disk does not say again what it has lost. Code: storage_failed.
func (l *Log) Sync(through int64) error {
	if l.failed != nil {
		return l.failed
	}
	l.mu.Lock()
	unsynced := l.unsynced
	l.unsynced = nil
	for _, s := range unsynced {
		s.unsynced = false
	}
	l.mu.Unlock()
	for _, s := range unsynced {
		if l.failed = l.datasync(s); l.failed != nil {
			return l.failed
		}
	}
	l.synced.Store(through)
	return nil
}

// appended notes that a segment has to be synced.
func (l *Log) appended(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.unsynced {
		s.unsynced = true
		l.unsynced = append(l.unsynced, s)
	}
}

func (l *Log) datasync(s *segment) error {
	err := l.options.Before(Change{Kind: Sync, Path: s.path})
	if err == nil {
		err = failpoint.Sync()
	}
	if err == nil {
		err = datasync(s.file)
	}
	if err != nil {
		return failure(errors.Join(ErrSync, err))
	}
	return nil
}

// ReadAt reads what the log has at a place. Errors: ErrMissing when it does not
// have as much, else storage_failed.
func (l *Log) ReadAt(p []byte, place int64) error {
	err := ErrMissing
	if s := l.holding(place); s != nil && place+int64(len(p)) <= s.start+s.size.Load() {
		err = s.readAt(p, place)
	}
	if err != nil && l.closed.Load() {
		return errClosed
	}
	return err
}

var errClosed = fault.New(fault.StorageFailed, "the packet log is closed")

// Segment is a part of the log.
type Segment struct {
	Start, End int64
	Last       bool // groups are appended to it
}

// Segments returns the parts, by their start.
func (l *Log) Segments() []Segment {
	all := l.all()
	segments := make([]Segment, 0, len(all))
	for i, s := range all {
		segments = append(segments, Segment{s.start, s.start + s.size.Load(), i == len(all)-1})
	}
	return segments
}

// SegmentOf returns the start of the segment that a place belongs to.
func (l *Log) SegmentOf(place int64) (start int64, ok bool) {
	s := l.holding(place)
	if s == nil {
		return 0, false
	}
	return s.start, true
}

// SegmentSize returns the length from which a segment is followed by another,
// in bytes.
func (l *Log) SegmentSize() int64 { return l.options.SegmentSize }

// End returns the place after the groups that were accepted. It is for the
// goroutine that appends.
func (l *Log) End() int64 { return l.end }

// Size returns the bytes of all files.
func (l *Log) Size() int64 {
	size := int64(0)
	for _, s := range l.Segments() {
		size += s.End - s.Start
	}
	return size
}

func (l *Log) all() []*segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.segments)
}

// holding returns the segment that a place belongs to, nil for none.
func (l *Log) holding(place int64) *segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, found := slices.BinarySearchFunc(l.segments, place, func(s *segment, place int64) int {
		switch {
		case s.start > place:
			return 1
		case s.start < place:
			return -1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || place >= l.segments[i].start+l.segments[i].size.Load() {
		return nil
	}
	return l.segments[i]
}

func (l *Log) last() *segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.segments) == 0 {
		return nil
	}
	return l.segments[len(l.segments)-1]
}

// failure gives an error of a file its code.
func failure(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = errors.Join(ErrFull, err)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// Paths returns the files of the log, by their start.
func (l *Log) Paths() []string {
	var paths []string
	for _, s := range l.all() {
		paths = append(paths, s.path)
	}
	return paths
}

// closeAfter closes f when err, if any, has been met.
func closeAfter(f *os.File, err error) error { return errors.Join(err, failure(f.Close())) }
