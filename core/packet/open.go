package packet

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

// Open decrypts the payload with the prekey that the packet names and returns
// the plaintext (03#encryption). The signature has to be verified before. A
// failing decapsulation and a failing AEAD are one code: decryption_failed.
func (p *Packet) Open(key *suite.DecapsulationKey) ([]byte, error) {
	secret, err := key.Decapsulate(p.KEMCiphertext)
	if err != nil {
		return nil, fault.Wrapf(fault.DecryptionFailed, err, "packet: decapsulate")
	}
	defer clear(secret)
	header := p.header()
	packetKey := suite.PacketKey(secret, header)
	defer clear(packetKey)
	plaintext, err := suite.Open(packetKey, p.Payload, header)
	if err != nil {
		return nil, fault.Wrapf(fault.DecryptionFailed, err, "packet.encryption.payload")
	}
	return plaintext, nil
}
