package packetlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// segmentMark begins every segment. After it come the log's ID and the place of
// the segment's first byte, as for every number big-endian.
const segmentMark = "\xffacelog1"

const segmentHeaderSize = len(segmentMark) + len(ID{}) + 8

const suffix = ".log"

// segment is one file of the log.
type segment struct {
	path     string
	start    int64
	file     *os.File
	size     atomic.Int64 // bytes in use
	unsynced bool         // it is in Log.unsynced, and guarded by its mu
}

// Pattern matches the names of a log's files.
func Pattern(id ID) string { return (&Log{id: id}).prefix() + "*" + suffix }

func (l *Log) prefix() string { return "packets-" + hex.EncodeToString(l.id[:4]) + "-" }

func (l *Log) path(start int64) string {
	return filepath.Join(l.dir, l.prefix()+fmt.Sprintf("%016x", start)+suffix)
}

func segmentHeader(id ID, start int64) []byte {
	b := append([]byte(segmentMark), id[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(start))
}

// openSegment opens a file of the log. It returns nil for one that was being
// made when the power went.
func openSegment(path string, id ID, flag int) (*segment, error) {
	if err := ownerfile.CheckFile(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, failure(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, failure(closeAfter(f, err))
	}
	header := make([]byte, segmentHeaderSize)
	if n, err := f.ReadAt(header, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, failure(closeAfter(f, err))
	} else if n < len(header) || info.Size() == int64(len(header)) && isZero(header) {
		return nil, failure(closeAfter(f, nil))
	}
	s := &segment{path: path, start: int64(binary.BigEndian.Uint64(header[segmentHeaderSize-8:])), file: f}
	if !bytes.Equal(header, segmentHeader(id, s.start)) || s.start < 0 || filepath.Base(path) != filepath.Base((&Log{id: id}).path(s.start)) {
		return nil, closeAfter(f, fault.New(fault.StorageFailed, "%s is no part of this store's packet log", path))
	}
	s.size.Store(info.Size())
	return s, nil
}

// apart opens a segment once more, to write and sync beside the goroutine that
// syncs: the system tells of a failed write once for each opening of the file,
// and what Log.Sync is to be told must not be told to another.
func (s *segment) apart() (*segment, error) {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return nil, failure(err)
	}
	return &segment{path: s.path, start: s.start, file: f}, nil
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// newSegment makes a file for groups from start on. It and its name have
// reached the disk when this returns.
func (l *Log) newSegment(start int64) (*segment, error) {
	path := l.path(start)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, failure(err)
	}
	s := &segment{path: path, start: start, file: f}
	if err := l.begin(s); err != nil {
		_ = os.Remove(path)
		return nil, closeAfter(f, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

func (l *Log) begin(s *segment) error {
	if err := l.writeAt(s, segmentHeader(l.id, s.start), s.start); err != nil {
		return err
	}
	s.size.Store(int64(segmentHeaderSize))
	if err := l.datasync(s); err != nil {
		return err
	}
	if err := ownerfile.SyncDir(l.dir); err != nil {
		return failure(errors.Join(ErrSync, err))
	}
	return nil
}

func (l *Log) writeAt(s *segment, p []byte, place int64) error {
	if err := l.options.Before(Change{Kind: Write, Path: s.path, Data: p, Offset: place - s.start}); err != nil {
		return failure(err)
	}
	_, err := s.file.WriteAt(p, place-s.start)
	return failure(err)
}

func (s *segment) readAt(p []byte, place int64) error {
	_, err := s.file.ReadAt(p, place-s.start)
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		return ErrMissing
	}
	return failure(err)
}

// cut forgets what a segment has from a place on.
func (l *Log) cut(s *segment, place int64) error {
	if place >= s.start+s.size.Load() {
		return nil
	}
	if err := l.options.Before(Change{Kind: Truncate, Path: s.path, Size: place - s.start}); err != nil {
		return failure(err)
	}
	s.size.Store(place - s.start)
	return failure(s.file.Truncate(place - s.start))
}

// Empty takes from the last segment all that it has, and returns when that has
// reached the disk. Nobody reads of it any more. The next group begins another
// segment. It is for the goroutine that appends, between two groups. Code:
// storage_failed.
func (l *Log) Empty() error {
	s := l.last()
	if s == nil {
		return nil
	}
	a, err := s.apart()
	if err != nil {
		return err
	}
	if err = l.cut(s, s.start+int64(segmentHeaderSize)); err == nil {
		err = l.datasync(a)
	}
	return closeAfter(a.file, err)
}

// Remove removes the segment that begins at start. Nobody reads of it any more.
// Code: storage_failed.
func (l *Log) Remove(start int64) error {
	s := l.holding(start)
	if s == nil || s.start != start {
		return nil
	}
	if err := l.options.Before(Change{Kind: Delete, Path: s.path}); err != nil {
		return failure(err)
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return failure(err)
	}
	l.mu.Lock()
	for i := range l.segments {
		if l.segments[i] == s {
			l.segments = append(l.segments[:i:i], l.segments[i+1:]...)
			break
		}
	}
	l.mu.Unlock()
	return failure(errors.Join(s.file.Close(), ownerfile.SyncDir(l.dir)))
}

// Range is a part of the log.
type Range struct{ Place, Size int64 }

var zeros [64 << 10]byte

// Erase overwrites parts of the log with zeros and returns when these have
// reached the disk. What the log does not have is erased already. Errors:
// ErrFull, storage_failed.
func (l *Log) Erase(ranges []Range) (err error) {
	touched := map[*segment]*segment{} // by what holding returns, opened for this
	defer func() {
		for _, a := range touched {
			err = closeAfter(a.file, err)
		}
	}()
	for _, r := range ranges {
		s := l.holding(r.Place)
		if s == nil {
			continue
		}
		if touched[s] == nil {
			a, err := s.apart()
			if err != nil {
				return err
			}
			touched[s] = a
		}
		if err := l.zero(touched[s], r.Place, min(r.Place+r.Size, s.start+s.size.Load())); err != nil {
			return err
		}
	}
	for _, a := range touched {
		if err := l.datasync(a); err != nil {
			return err
		}
	}
	return nil
}

// zero overwrites a segment from a place to another.
func (l *Log) zero(s *segment, at, end int64) error {
	for at < end {
		n := min(end-at, int64(len(zeros)))
		if err := l.writeAt(s, zeros[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}
