package packet

import (
	"bytes"
	"strconv"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Every string of a packet has a grammar without characters that JSON escapes,
// and its members are fixed. Its canonical JSON (02#canonical-json) is therefore
// these pieces with the values between them, in this order.
const (
	beforeKEM       = `{"ace":"1","encryption":{"kemCiphertext":"`
	beforePayload   = `","payload":"`
	beforePrekey    = `","prekey":"`
	beforeFrom      = `"},"from":"`
	beforeMessageID = `","messageId":"`
	beforeSeq       = `","signature":{"scheme":"ml-dsa-65","seq":`
	beforeSigValue  = `,"value":"`
	beforeTimestamp = `"},"timestamp":`
	beforeTo        = `,"to":"`
	atEnd           = `"}`
)

// canonical returns the canonical JSON of p.
func (p *Packet) canonical() []byte {
	const others = 1024 // more than everything but the three Base64 values takes
	size := others + wire.Base64Len(len(p.KEMCiphertext)) + wire.Base64Len(len(p.Payload)) + wire.Base64Len(len(p.Signature.Value))
	b := append(make([]byte, 0, size), beforeKEM...)
	b = append(wire.AppendBase64(b, p.KEMCiphertext), beforePayload...)
	b = append(wire.AppendBase64(b, p.Payload), beforePrekey...)
	b = append(append(b, p.Prekey...), beforeFrom...)
	b = append(append(b, p.From...), beforeMessageID...)
	b = append(append(b, p.MessageID...), beforeSeq...)
	b = append(strconv.AppendInt(b, p.Signature.Seq, 10), beforeSigValue...)
	b = append(wire.AppendBase64(b, p.Signature.Value), beforeTimestamp...)
	b = append(strconv.AppendInt(b, p.Timestamp, 10), beforeTo...)
	return append(append(b, p.To...), atEnd...)
}

// decodeCanonical decodes a packet that is in canonical form already, as
// senders and relays write it, without building a JSON value. It refuses
// everything else and says nothing about it: [DecodeValue] does.
func decodeCanonical(data []byte) (*Packet, bool) {
	s := scanner{rest: data, decoded: make([]byte, 0, len(data)/4*3)}
	p := &Packet{
		KEMCiphertext: s.base64(beforeKEM, suite.KEMCiphertextBytes, suite.KEMCiphertextBytes),
		Payload:       s.base64(beforePayload, minPayloadBytes, maxPayloadBytes),
		Prekey:        s.text(beforePrekey, wire.IsHexDigest),
		From:          s.text(beforeFrom, wire.IsACEID),
		MessageID:     s.text(beforeMessageID, wire.IsMessageID),
	}
	p.Signature.Seq = s.integer(beforeSeq)
	p.Signature.Value = s.base64(beforeSigValue, suite.SignatureBytes, suite.SignatureBytes)
	p.Timestamp = s.integer(beforeTimestamp)
	p.To = s.text(beforeTo, wire.IsACEID)
	if s.failed || string(s.rest) != atEnd || p.From == p.To {
		return nil, false
	}
	p.raw = data
	return p, true
}

// scanner reads what follows one piece after another. After a failure it reads
// nothing more.
type scanner struct {
	rest    []byte
	decoded []byte // of all Base64 values, one after another
	failed  bool
}

// value returns the characters between piece and the next stop.
func (s *scanner) value(piece string, stop byte) []byte {
	if s.failed || len(s.rest) < len(piece) || string(s.rest[:len(piece)]) != piece {
		s.failed = true
		return nil
	}
	rest := s.rest[len(piece):]
	end := bytes.IndexByte(rest, stop)
	if end < 0 {
		s.failed = true
		return nil
	}
	s.rest = rest[end:]
	return rest[:end]
}

func (s *scanner) text(piece string, is func(string) bool) string {
	v := string(s.value(piece, '"'))
	s.failed = s.failed || !is(v)
	return v
}

func (s *scanner) integer(piece string) int64 {
	v := string(s.value(piece, ','))
	n, err := strconv.ParseInt(v, 10, 64)
	s.failed = s.failed || err != nil || n < 0 || n > wire.MaxInt || wire.Decimal(n) != v
	return n
}

func (s *scanner) base64(piece string, low, high int) []byte {
	v := s.value(piece, '"')
	if s.failed || len(v) > wire.Base64Len(high) {
		s.failed = true
		return nil
	}
	start := len(s.decoded)
	decoded, err := wire.AppendDecodedBase64(s.decoded, v)
	if n := len(decoded) - start; err != nil || n < low || n > high {
		s.failed = true
		return nil
	}
	s.decoded = decoded
	return decoded[start:len(decoded):len(decoded)]
}
