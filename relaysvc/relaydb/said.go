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

const saidFixed = 4*8 + 1 + 32 + 2

func (s *said) append(b []byte) []byte {
	for _, n := range [...]int64{s.identity, s.generation, s.seq, s.expires} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, byte(boolean(s.stranger)|boolean(s.alone)<<1))
	b = append(b, s.digest[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.network)))
	b = append(b, s.network...)
	return append(b, s.sender...)
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
	network := int(binary.BigEndian.Uint16(b[65:]))
	if b = b[saidFixed:]; network > len(b) {
		return nil, errSaid
	}
	s.network, s.sender = b[:network], b[network:]
	return s, nil
}

var errSaid = fault.New(fault.StorageFailed, "the packet log says of a packet what this program does not know")
