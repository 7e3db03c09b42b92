package interop

import (
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// opener opens packets as one identity: the receive pipeline without admission,
// pinning and deduplication (interop#open-packet---from-agent-f---packet-p---out-r---now-n).
type opener struct {
	self      string
	senderKEL wire.Value
	now       int64
	// find returns the key that may open a packet of from.
	find func(id, from string) (prekey.Key, bool)
	// opened is called once the payload is decrypted, whatever becomes of its
	// content; nil for none.
	opened func(p *packet.Packet) error
}

type openedPacket struct {
	packet    *packet.Packet
	plaintext []byte
	content   *packet.Content
}

// open runs steps 1 to 7, the decoding of step 1 apart.
func (o *opener) open(p *packet.Packet) (*openedPacket, error) {
	if p.To != o.self {
		return nil, fault.New(fault.WrongRecipient, "packet.to: not this identity")
	}
	sender, err := o.authenticate(p)
	if err != nil {
		return nil, err
	}
	if err := p.CheckWindow(o.now); err != nil {
		return nil, err
	}
	plaintext, err := o.decrypt(p)
	if err != nil {
		return nil, err
	}
	content, err := packet.ParseContent(plaintext)
	if err != nil {
		return nil, err
	}
	if err := checkInstalled(content); err != nil {
		return nil, err
	}
	if err := o.checkCore(p, content, sender); err != nil {
		return nil, err
	}
	return &openedPacket{packet: p, plaintext: plaintext, content: content}, nil
}

// authenticate is steps 2 and 3: the sender's log stands for the pin.
func (o *opener) authenticate(p *packet.Packet) (*kel.State, error) {
	sender, err := kel.Verify(o.senderKEL, o.now)
	if err != nil {
		return nil, err
	}
	return sender, p.VerifySignature(sender, o.now)
}

// decrypt is the first half of step 5.
func (o *opener) decrypt(p *packet.Packet) ([]byte, error) {
	held, ok := o.find(p.Prekey, p.From)
	if !ok {
		return nil, fault.New(fault.UnknownPrekey, "packet.encryption.prekey: not held for this sender")
	}
	key := suite.NewDecapsulationKey(held.Seed)
	defer key.Destroy()
	plaintext, err := p.Open(key)
	if err != nil || o.opened == nil {
		return plaintext, err
	}
	return plaintext, o.opened(p)
}

// checkCore is step 7: the core rules of receipts and contacts.
func (o *opener) checkCore(p *packet.Packet, c *packet.Content, sender *kel.State) error {
	switch c.Type {
	case profile.ReceiptType:
		_, _, err := delivery.VerifyReceipt(c.Body, p.From, p.To, sender, o.now)
		return err
	case profile.ContactType:
		return checkContact(c.Body, p.From, p.To, o.now, p)
	}
	return nil
}

// checkInstalled checks that type and digest are of an installed profile, core
// or text, and the body against its schema (06#receive-pipeline steps 7 and 8).
func checkInstalled(c *packet.Content) error {
	message, ok := installed().Installed(c.Type, c.SchemaDigest)
	if !ok {
		return fault.New(fault.UnsupportedSchema, "content.type: %.80q with this digest is not installed", c.Type)
	}
	return fault.Wrapf(fault.InvalidBody, message.Schema.Match(c.Body), "content.body")
}

// checkContact checks the body of a contact (05#contact-requests). The packet
// that carried it, if there is one, has to be signed under the state of its
// source.
func checkContact(body wire.Value, from, to string, now int64, carrier *packet.Packet) error {
	c, err := admission.DecodeContact(body)
	if err != nil {
		return err
	}
	source, err := c.VerifySource(from, now, descriptor.Options{})
	if err != nil {
		return err
	}
	if carrier != nil {
		if err := carrier.VerifySignature(source.State(), now); err != nil {
			return err
		}
	}
	_, err = c.VerifyPermit(source.State(), from, to, now)
	return err
}

// installed is the set of profiles of the driver, core and text.
func installed() *profile.Set {
	set := profile.NewSet()
	if err := set.Install(officialProfile(profile.TextID)); err != nil {
		panic("ace: internal error: " + err.Error())
	}
	return set
}

func officialProfile(id string) *profile.Manifest {
	for _, m := range profile.Official() {
		if m.ID == id {
			return m
		}
	}
	panic("ace: internal error: no official profile " + id)
}
