package packet

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// headerLabel opens the header of every packet (03#encryption).
const headerLabel = "ace.v1.packet"

// Header returns the header that binds a ciphertext to its packet: the info of
// the key derivation and the additional data of the AEAD (03#encryption).
func Header(from, to, messageID string, timestamp int64, prekeyID string, kemCiphertext []byte) []byte {
	t := wire.Decimal(timestamp)
	size := 7*4 + len(headerLabel) + len(from) + len(to) + len(messageID) + len(t) + len(prekeyID) + len(kemCiphertext)
	b := make([]byte, 0, size)
	for _, field := range [...]string{headerLabel, from, to, messageID, t, prekeyID} {
		b = wire.AppendField(b, field)
	}
	return wire.AppendField(b, kemCiphertext)
}

func (p *Packet) header() []byte {
	return Header(p.From, p.To, p.MessageID, p.Timestamp, p.Prekey, p.KEMCiphertext)
}

// Seal encrypts plaintext, the canonical private content, to a prekey of the
// recipient and signs the packet at t, the signer's [kel.Identity.SigningTime]
// (03#encryption, 03#signature). Codes: invalid_argument for a recipient,
// message ID, time or plaintext that no packet can have and for a prekey that
// cannot be encapsulated to; identity_unavailable.
func Seal(id *kel.Identity, to, messageID string, t int64, plaintext []byte, prekey *suite.EncapsulationKey) (*Packet, error) {
	p := &Packet{MessageID: messageID, From: id.ACEID(), To: to, Timestamp: t}
	if err := p.checkAddress(plaintext); err != nil {
		return nil, err
	}
	secret, kemCiphertext, err := prekey.Encapsulate()
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidArgument, err, "packet: encapsulate")
	}
	defer clear(secret)
	p.Prekey, p.KEMCiphertext = PrekeyID(prekey.PublicKey()), kemCiphertext
	header := p.header()
	key := suite.PacketKey(secret, header)
	defer clear(key)
	if p.Payload, err = suite.Seal(key, plaintext, header); err != nil {
		return nil, fault.Wrapf(fault.InvalidArgument, err, "packet: encrypt")
	}
	if p.Signature, err = id.Sign(kel.ActionPacket, t, p.signaturePayload()); err != nil {
		return nil, err
	}
	p.raw = p.canonical()
	return p, nil
}

func (p *Packet) checkAddress(plaintext []byte) error {
	switch {
	case !wire.IsACEID(p.To):
		return fault.New(fault.InvalidArgument, "packet: recipient %.80q is not an ACE ID", p.To)
	case p.To == p.From:
		return fault.New(fault.InvalidArgument, "packet: the recipient is the sender")
	case !wire.IsMessageID(p.MessageID):
		return fault.New(fault.InvalidArgument, "packet: %.80q is not a message ID", p.MessageID)
	case len(plaintext) > wire.MaxPlaintextBytes:
		return fault.New(fault.InvalidArgument, "packet: content of %d bytes, more than %d", len(plaintext), wire.MaxPlaintextBytes)
	}
	return fault.Wrap(fault.InvalidArgument, wire.CheckTime(p.Timestamp))
}

// Encryption is what encrypting one plaintext gives, with the secrets on the
// way (03#encryption).
type Encryption struct {
	PrekeyID      string
	KEMCiphertext []byte
	Payload       []byte
	Header        []byte
	SharedSecret  []byte
	Key           []byte
}

// EncryptDeterministic encrypts with the 64 bytes of encapsulation randomness
// and the 12 bytes of the nonce given. 03#encryption allows it in test vectors
// only. The errors are plain.
func EncryptDeterministic(from, to, messageID string, timestamp int64, plaintext []byte, prekey *suite.EncapsulationKey, eseed, nonce []byte) (*Encryption, error) {
	secret, kemCiphertext, err := prekey.EncapsulateDeterministic(eseed)
	if err != nil {
		return nil, err
	}
	e := &Encryption{PrekeyID: PrekeyID(prekey.PublicKey()), KEMCiphertext: kemCiphertext, SharedSecret: secret}
	e.Header = Header(from, to, messageID, timestamp, e.PrekeyID, kemCiphertext)
	e.Key = suite.PacketKey(secret, e.Header)
	e.Payload, err = suite.SealWithNonce(e.Key, nonce, plaintext, e.Header)
	return e, err
}
