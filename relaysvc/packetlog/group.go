package packetlog

import (
	"encoding/binary"
	"hash/crc32"
)

// groupMark begins every group. No packet has its first byte, which is in no
// UTF-8 text.
const groupMark = "\xffgrp"

// The header of a group: the mark, the checksum of all that follows of the
// header and of the frames, the place of the header, the bytes of the bodies,
// those of the frames, the number of bodies, and four bytes for later.
const groupHeaderSize = 32

// frameSize is that of a frame: the length of the body, the checksum of it and
// of what the store said, and the length of that.
const frameSize = 10

// keptGroup bounds the memory that a batch keeps between groups.
const keptGroup = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a group that is being put together.
type Batch struct {
	start  int64 // place of its header
	count  int
	data   []byte // header and bodies
	frames []byte
}

// Begin makes b an empty group that comes after those accepted so far.
func (l *Log) Begin(b *Batch) {
	if cap(b.data) > keptGroup {
		b.data = nil
	}
	b.start, b.count = l.next(), 0
	b.data = append(b.data[:0], make([]byte, groupHeaderSize)...)
	b.frames = b.frames[:0]
}

// next returns the place of the next group: in the last segment unless that is
// long enough, or shorter than it was. What it has lost stays missing.
func (l *Log) next() int64 {
	s := l.last()
	if s == nil || l.end-s.start >= l.options.SegmentSize || l.end > s.start+s.size.Load() {
		return l.end + int64(segmentHeaderSize)
	}
	return max(l.end, s.start+int64(segmentHeaderSize))
}

// Add adds a body and what the store says of it, which comes right after it,
// and returns the place that the body will have.
func (b *Batch) Add(said, body []byte) (place int64) {
	place = b.Next()
	b.data = append(append(b.data, body...), said...)
	b.frames = binary.BigEndian.AppendUint32(b.frames, uint32(len(body)))
	b.frames = binary.BigEndian.AppendUint32(b.frames, crc32.Checksum(b.data[place-b.start:], castagnoli))
	b.frames = binary.BigEndian.AppendUint16(b.frames, uint16(len(said)))
	b.count++
	return place
}

// Next returns the place that the next body will have.
func (b *Batch) Next() int64 { return b.start + int64(len(b.data)) }

// Len returns the number of bodies.
func (b *Batch) Len() int { return b.count }

// End returns the place after the group.
func (b *Batch) End() int64 { return b.start + int64(len(b.data)+len(b.frames)) }

// Write writes a group that has bodies, over any that was written but not
// accepted. It need not have reached the disk. Errors: ErrFull,
// storage_failed.
func (l *Log) Write(b *Batch) error {
	s := l.last()
	if !l.belongs(b, s) {
		var err error
		if s, err = l.newSegment(l.end); err != nil {
			return err
		}
	}
	h := append(b.data[:0], groupMark...)
	h = append(h, 0, 0, 0, 0)
	h = binary.BigEndian.AppendUint64(h, uint64(b.start))
	h = binary.BigEndian.AppendUint32(h, uint32(len(b.data)-groupHeaderSize))
	h = binary.BigEndian.AppendUint32(h, uint32(len(b.frames)))
	h = binary.BigEndian.AppendUint32(h, uint32(b.count))
	h = append(h, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(h[4:], checksum(h, b.frames))
	b.data = append(b.data, b.frames...)
	err := l.writeAt(s, b.data, b.start)
	b.data = b.data[:len(b.data)-len(b.frames)]
	l.appended(s) // not earlier: a sync that began before the write would take the note away
	if err == nil {
		s.size.Store(b.End() - s.start)
	}
	return err
}

// belongs reports whether a group that was begun last is to be in s, the last
// segment or nil.
func (l *Log) belongs(b *Batch, s *segment) bool {
	return s != nil && b.start == max(l.end, s.start+int64(segmentHeaderSize))
}

func checksum(header, frames []byte) uint32 {
	return crc32.Update(crc32.Checksum(header[8:groupHeaderSize], castagnoli), castagnoli, frames)
}

// Accept makes the group that was written last a part of the log.
func (l *Log) Accept(b *Batch) { l.end = b.End() }

// Withdraw takes the group back that was written last, or in part, and not
// accepted: it must not be found by Recover, also not after a power cut. Code:
// storage_failed.
func (l *Log) Withdraw(b *Batch) error {
	s := l.last()
	if !l.belongs(b, s) {
		return nil // its segment could not be made
	}
	a, err := s.apart()
	if err != nil {
		return err
	}
	s.size.Store(b.End() - s.start)
	if err = l.cut(s, b.start); err == nil {
		err = l.datasync(a)
	}
	return closeAfter(a.file, err)
}
