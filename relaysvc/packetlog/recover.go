package packetlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/ace-toolkit/ace/core/fault"
)

// Record is a body of the log and what the store said of it.
type Record struct {
	Place, Size int64
	Said        []byte // valid during the call
}

// Recover calls yield with every body from a place on, in order: that of a
// group which the store is sure of, or of the log's end. The first group that
// is not whole was being written when the power went, and nobody was answered
// for it: it is cut off, with all that comes after. Afterwards the log ends
// after the last whole group, and all of it has reached the disk.
// It returns the bytes that were cut off. Code: storage_failed.
func (l *Log) Recover(from int64, yield func(Record) error) (dropped int64, err error) {
	if err := l.checkReaches(from); err != nil {
		return 0, err
	}
	at := from
	for {
		next, err := l.group(at, yield)
		if err != nil {
			return 0, err
		}
		if next == at {
			break
		}
		at = next
	}
	if dropped, err = l.cutFrom(at); err != nil {
		return dropped, err
	}
	for _, s := range l.all() {
		if s.start+s.size.Load() >= from {
			l.appended(s) // what a process wrote that was killed may not be there yet
		}
	}
	l.end = at
	return dropped, l.Sync(at)
}

// checkReaches refuses a log that has something after a place, but nothing up
// to it: a file in between is gone or short, and what is after it would be
// taken for what no answer was given for.
func (l *Log) checkReaches(from int64) error {
	for _, s := range l.all() {
		switch {
		case s.start > from:
			return fault.New(fault.StorageFailed, "the packet log has %s, and what comes before it is missing", s.path)
		case from <= s.start+s.size.Load():
			return nil
		}
	}
	return nil
}

// group yields what the group at a place has and returns where it ends, which
// is that place when there is no whole one.
func (l *Log) group(at int64, yield func(Record) error) (next int64, err error) {
	s := l.holding(at)
	if s == nil {
		return at, nil
	}
	if at == s.start {
		return at + int64(segmentHeaderSize), nil
	}
	header := make([]byte, groupHeaderSize)
	if err := s.readAt(header, at); err != nil {
		return at, unlessMissing(err)
	}
	bodies, frames := int64(binary.BigEndian.Uint32(header[16:])), int64(binary.BigEndian.Uint32(header[20:]))
	left := s.start + s.size.Load() - at - groupHeaderSize
	if string(header[:4]) != groupMark || int64(binary.BigEndian.Uint64(header[8:])) != at || bodies+frames > left {
		return at, nil
	}
	data := make([]byte, bodies+frames)
	if err := s.readAt(data, at+groupHeaderSize); err != nil {
		return at, unlessMissing(err)
	}
	if binary.BigEndian.Uint32(header[4:]) != checksum(header, data[bodies:]) {
		return at, nil
	}
	records, whole := parse(data[:bodies], data[bodies:], at+groupHeaderSize)
	if !whole || len(records) != int(binary.BigEndian.Uint32(header[24:])) {
		return at, nil
	}
	for _, r := range records {
		if err := yield(r); err != nil {
			return at, err
		}
	}
	return at + groupHeaderSize + bodies + frames, nil
}

func unlessMissing(err error) error {
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// parse returns the records of a group whose bodies begin at a place, and
// whether each body is the one that was written.
func parse(bodies, frames []byte, place int64) (records []Record, whole bool) {
	for len(frames) > 0 {
		if len(frames) < frameSize {
			return nil, false
		}
		size, sum, said := int64(binary.BigEndian.Uint32(frames)), binary.BigEndian.Uint32(frames[4:]), int64(binary.BigEndian.Uint16(frames[8:]))
		frames = frames[frameSize:]
		if size+said > int64(len(bodies)) || crc32.Checksum(bodies[:size+said], castagnoli) != sum {
			return nil, false
		}
		records = append(records, Record{Place: place, Size: size, Said: bodies[size : size+said]})
		bodies, place = bodies[size+said:], place+size+said
	}
	return records, len(bodies) == 0
}

// cutFrom removes what the log has from a place on.
func (l *Log) cutFrom(at int64) (dropped int64, err error) {
	for _, s := range l.all() {
		end := s.start + s.size.Load()
		switch {
		case end <= at:
			continue
		case s.start >= at:
			err = l.Remove(s.start)
		default:
			err = l.cut(s, at)
		}
		if err != nil {
			return dropped, err
		}
		dropped += end - max(at, s.start)
	}
	return dropped, nil
}
