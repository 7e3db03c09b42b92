// Package packet makes and reads the one object that agents exchange (chapter
// 03): it decodes and verifies a packet, seals and opens it, and reads the
// private content inside.
//
// A sender builds a [Content], takes its [Content.Canonical] and calls [Seal].
// A receiver calls [Decode], [Packet.VerifySignature], [Packet.CheckWindow],
// [Packet.Open] and [ParseContent], in the order of 06#receive-pipeline. Who may
// send, which prekey opens and what a body means is decided elsewhere.
package packet

import (
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Packet is a decoded packet (03#decoding). Its parts are not to be changed.
type Packet struct {
	MessageID     string
	From, To      string // ACE IDs, never equal
	Timestamp     int64  // the signer's t at this attempt, Unix seconds
	Prekey        string // hex ID of the recipient's prekey
	KEMCiphertext []byte // 1120 bytes
	Payload       []byte // nonce[12] ‖ ciphertext ‖ tag[16]
	Signature     wire.Signature

	raw []byte // nil when Raw is to make it
}

// Raw returns the canonical JSON of the packet, which the caller must not
// change.
func (p *Packet) Raw() []byte {
	if p.raw == nil {
		return p.canonical() // most that are received are never asked
	}
	return p.raw
}

// Value returns the packet as JSON.
func (p *Packet) Value() wire.Value {
	return wire.NewObject(
		wire.M("ace", wire.NewString(wire.Version)),
		wire.M("messageId", wire.NewString(p.MessageID)),
		wire.M("from", wire.NewString(p.From)),
		wire.M("to", wire.NewString(p.To)),
		wire.M("timestamp", wire.NewInt(p.Timestamp)),
		wire.M("encryption", wire.NewObject(
			wire.M("prekey", wire.NewString(p.Prekey)),
			wire.M("kemCiphertext", wire.NewString(wire.EncodeBase64(p.KEMCiphertext))),
			wire.M("payload", wire.NewString(wire.EncodeBase64(p.Payload))),
		)),
		wire.M("signature", p.Signature.Object()),
	)
}

// Envelope is what a relay reads of a packet that decodes (07#send): it looks
// neither into the ciphertext nor at the signature.
type Envelope struct {
	From, To  string // ACE IDs, never equal
	Timestamp int64  // the signer's t at this attempt, Unix seconds
	Raw       []byte // canonical JSON of the whole packet, not to be changed
}

// Envelope returns what a relay reads of the packet.
func (p *Packet) Envelope() Envelope {
	return Envelope{From: p.From, To: p.To, Timestamp: p.Timestamp, Raw: p.Raw()}
}

// PrekeyID returns the ID of an X-Wing public key, the hex SHA-256 of its 1216
// bytes (04#prekey).
func PrekeyID(publicKey []byte) string { return suite.Hex256(publicKey) }

// PairKey returns the local key of the conversation of two ACE IDs, 64 hex
// characters that do not depend on their order. There is no such key on the
// wire (03#decoding).
func PairKey(a, b string) string {
	if a > b {
		a, b = b, a
	}
	return suite.Hex256([]byte(a + "\x00" + b))
}
