package packet

import (
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
	s := scanner{Scanner: wire.NewScanner(data), decoded: make([]byte, 0, len(data)/4*3)}
	p := s.packet()
	if rest, ok := s.Rest(); !ok || len(rest) > 0 {
		return nil, false
	}
	p.raw = data
	return &p, true
}

// CutEnvelope reads a packet in canonical form at the start of text and returns
// what follows it. It is for a relay: the Base64 values are validated, not
// decoded, and Raw is a part of text. It refuses everything else and says
// nothing about it: [DecodeValue] does (03#decoding).
func CutEnvelope(text []byte) (e Envelope, rest []byte, ok bool) {
	s := scanner{Scanner: wire.NewScanner(text)}
	p := s.packet()
	rest, ok = s.Rest()
	if !ok {
		return Envelope{}, nil, false
	}
	end := len(text) - len(rest)
	p.raw = text[:end:end]
	return p.Envelope(), rest, true
}

// scanner reads packets. Without room for the bytes of Base64 values it only
// validates these.
type scanner struct {
	wire.Scanner
	decoded []byte // of all Base64 values, one after another
}

func (s *scanner) packet() Packet {
	p := Packet{
		KEMCiphertext: s.base64(beforeKEM, suite.KEMCiphertextBytes, suite.KEMCiphertextBytes),
		Payload:       s.base64(beforePayload, minPayloadBytes, maxPayloadBytes),
		Prekey:        s.Text(beforePrekey, wire.IsHexDigest),
		From:          s.Text(beforeFrom, wire.IsACEID),
		MessageID:     s.Text(beforeMessageID, wire.IsMessageID),
	}
	p.Signature.Seq = s.Int(beforeSeq)
	p.Signature.Value = s.base64(beforeSigValue, suite.SignatureBytes, suite.SignatureBytes)
	p.Timestamp = s.Int(beforeTimestamp)
	p.To = s.Text(beforeTo, wire.IsACEID)
	s.Skip(atEnd)
	if p.From == p.To {
		s.Refuse()
	}
	return p
}

// base64 reads piece and the Base64 of low to high bytes after it.
func (s *scanner) base64(piece string, low, high int) []byte {
	text := s.Value(piece, '"')
	if len(text) > wire.Base64Len(high) {
		s.Refuse()
		return nil
	}
	if s.decoded == nil {
		if n, err := wire.CheckBase64(text); err != nil || n < low || n > high {
			s.Refuse()
		}
		return nil
	}
	start := len(s.decoded)
	decoded, err := wire.AppendDecodedBase64(s.decoded, text)
	if n := len(decoded) - start; err != nil || n < low || n > high {
		s.Refuse()
		return nil
	}
	s.decoded = decoded
	return decoded[start:len(decoded):len(decoded)]
}
