package packet

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Bounds of a decoded payload in bytes (03#decoding): what AES-GCM adds to
// nothing and to the largest plaintext.
const (
	minPayloadBytes = suite.GCMNonceBytes + suite.GCMTagBytes
	maxPayloadBytes = wire.MaxPlaintextBytes + minPayloadBytes
)

// Decode reads a packet from JSON text of at most MAX_PACKET_BYTES
// (03#decoding). Codes: unsupported_version when ace is not "1", whatever else
// is wrong with an object that parses; invalid_packet.
//
// The packet may keep data, which the caller must not change afterwards.
func Decode(data []byte) (*Packet, error) {
	if len(data) > wire.MaxPacketBytes {
		return nil, fault.New(fault.InvalidPacket, "packet: %d bytes, more than %d", len(data), wire.MaxPacketBytes)
	}
	if p, ok := decodeCanonical(data); ok {
		return p, nil
	}
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidPacket, err, "packet")
	}
	return DecodeValue(v)
}

// DecodeValue is Decode for a packet that was parsed as part of a larger text.
//
// The bounds on depth and on the canonical size need no check of their own: an
// object in which every member obeys its rule is far within both.
func DecodeValue(v wire.Value) (*Packet, error) {
	if v.Kind() != wire.Object {
		return nil, fault.New(fault.InvalidPacket, "packet: is %s, not an object", v.Kind())
	}
	// Not by the reader, which gives up on an object of too many members.
	if ace, _ := v.Get("ace"); !ace.Equal(wire.NewString(wire.Version)) {
		return nil, fault.New(fault.UnsupportedVersion, "packet.ace: not the version %q", wire.Version)
	}
	r := wire.NewReader(v, "packet")
	r.Value("ace")
	p := &Packet{
		MessageID: r.Matching("messageId", "message ID", wire.IsMessageID),
		From:      r.ACEID("from"),
		To:        r.ACEID("to"),
		Timestamp: r.Int("timestamp"),
	}
	if p.From == p.To {
		r.FailMember("to", "equals from")
	}
	e := r.Object("encryption")
	p.Prekey = e.HexDigest("prekey")
	p.KEMCiphertext = e.Base64("kemCiphertext", suite.KEMCiphertextBytes, suite.KEMCiphertextBytes)
	p.Payload = e.Base64("payload", minPayloadBytes, maxPayloadBytes)
	_ = e.Close() // the error is r's as well
	p.Signature = r.Signature("signature")
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidPacket, err)
	}
	return p, nil
}
