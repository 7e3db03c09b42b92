package relaydb

import (
	"encoding/binary"

	"github.com/ace-toolkit/ace/core/fault"
)

// said is what the packet log keeps beside a packet: the entry that it belongs
// to, which is made again from it when the power went before the database had
// reached the disk.
type said struct {
	identity, generation, seq, expires int64
	stranger                           bool
	alone                              bool // its group was of packets alone
	digest                             [32]byte
	network, sender                    []byte
}

const (
	saidFixed = 4*8 + 1 + 32 + 2 + 2
	// saidSize is the length of what is said, filled up with zeros, so that a
	// packet's part of the log follows from the packet's size. The senders and
	// networks of a relay have at most 32 and 43 bytes.
	saidSize = 160
)

// append appends saidSize bytes, or more for longer names than a relay has.
func (s *said) append(b []byte) []byte {
	start := len(b)
	for _, n := range [...]int64{s.identity, s.generation, s.seq, s.expires} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, byte(boolean(s.stranger)|boolean(s.alone)<<1))
	b = append(b, s.digest[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.network)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.sender)))
	b = append(append(b, s.network...), s.sender...)
	return append(b, make([]byte, max(0, start+saidSize-len(b)))...)
}

func parseSaid(b []byte) (*said, error) {
	s := &said{}
	if len(b) < saidFixed {
		return nil, errSaid
	}
	for i, n := range [...]*int64{&s.identity, &s.generation, &s.seq, &s.expires} {
		*n = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	s.stranger, s.alone = b[32]&1 != 0, b[32]&2 != 0
	copy(s.digest[:], b[33:])
	network, sender := int(binary.BigEndian.Uint16(b[65:])), int(binary.BigEndian.Uint16(b[67:]))
	if b = b[saidFixed:]; network+sender > len(b) {
		return nil, errSaid
	}
	s.network, s.sender = b[:network], b[network:network+sender]
	return s, nil
}

var errSaid = fault.New(fault.StorageFailed, "the packet log says of a packet what this program does not know")
