package interop

import (
	"fmt"
	"path/filepath"

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

// createPacket seals one packet of a kind and writes it with its content
// (interop#create-packet---to-agent-f---kind-k---out-p-options---now-n).
func createPacket(o *options) error {
	out, err := o.get("out")
	if err != nil {
		return err
	}
	v, err := loadVault(o.path, o.now)
	if err != nil {
		return err
	}
	to, err := o.agent("to-agent")
	if err != nil {
		return err
	}
	recipientKey, err := o.recipientKey(to)
	if err != nil {
		return err
	}
	id := v.identity()
	content, err := o.content(v, id, to.ACEID)
	if err != nil {
		return err
	}
	t := id.SigningTime(o.now)
	next, offered, _ := v.issuer(to.ACEID).Offer(o.now, t)
	v.issuers[to.ACEID] = next
	content.Prekey = offered.PublicKey
	plaintext, err := content.Canonical()
	if err != nil {
		return err
	}
	messageID, given := o.values["message-id"]
	if !given {
		messageID = suite.NewMessageID()
	}
	p, err := packet.Seal(id, to.ACEID, messageID, t, plaintext, recipientKey)
	if err != nil {
		return err
	}
	// The offered seed has to be held before the packet that carries it is out.
	if err := v.save(); err != nil {
		return err
	}
	if err := writeJSON(out, p.Value()); err != nil {
		return err
	}
	return writeJSON(out+".content.json", content.Value())
}

// agent verifies the PublishedAgent in the file that an option names.
func (o *options) agent(name string) (*descriptor.PublishedAgent, error) {
	path, err := o.get(name)
	if err != nil {
		return nil, err
	}
	data, err := readInput(path)
	if err != nil {
		return nil, err
	}
	agent, err := descriptor.Verify(data, o.now, descriptor.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return agent, nil
}

// recipientKey returns the key to encrypt to: that of the recipient's
// descriptor unless an option names another.
func (o *options) recipientKey(to *descriptor.PublishedAgent) (*suite.EncapsulationKey, error) {
	publicKey := to.Prekey
	if _, given := o.values["prekey-agent"]; given {
		other, err := o.agent("prekey-agent")
		if err != nil {
			return nil, err
		}
		publicKey = other.Prekey
	} else if text, given := o.values["to-prekey"]; given {
		var err error
		if publicKey, err = wire.DecodeBase64(text); err != nil {
			return nil, fmt.Errorf("%w: --to-prekey: %v", errArguments, err)
		}
	}
	return suite.ParseEncapsulationKey(publicKey)
}

// content builds the private content of the kind asked for, its prekey apart.
func (o *options) content(v *vault, id *kel.Identity, to string) (*packet.Content, error) {
	kind, err := o.get("kind")
	if err != nil {
		return nil, err
	}
	var messageType string
	var body wire.Value
	switch kind {
	case "text":
		messageType = profile.TextType
		body, err = o.textBody()
	case "receipt-delivered", "receipt-rejected", "receipt-unknown-prekey":
		messageType = profile.ReceiptType
		body, err = o.receiptBody(kind, id, to)
	case "contact-request", "contact-accepted", "contact-rejected":
		messageType = profile.ContactType
		body, err = o.contactBody(kind, v, id, to)
	default:
		err = fmt.Errorf("%w: unknown --kind %q", errArguments, kind)
	}
	if err != nil {
		return nil, err
	}
	message, _ := installed().Type(messageType)
	return &packet.Content{
		Type: messageType, SchemaDigest: message.Digest, ThreadID: o.values["thread-id"], Body: body,
	}, nil
}

func (o *options) textBody() (wire.Value, error) {
	text, err := o.text("message")
	return facts(str("message", text)), err
}

func (o *options) receiptBody(kind string, id *kel.Identity, to string) (wire.Value, error) {
	ref, err := o.get("ref-message-id")
	if err != nil {
		return wire.Value{}, err
	}
	b := &delivery.ReceiptBody{MessageID: ref, Outcome: delivery.OutcomeDelivered}
	switch kind {
	case "receipt-rejected":
		b.Outcome = delivery.OutcomeRejected
		if b.Code, err = o.text("code"); err != nil {
			return wire.Value{}, err
		}
		permit, err := o.permit(id, to)
		if err != nil {
			return wire.Value{}, err
		}
		b.Permit = permit.Value()
	case "receipt-unknown-prekey":
		b.Outcome, b.Code = delivery.OutcomeRejected, string(fault.UnknownPrekey)
		b.Prekey, err = o.get("ref-prekey")
	}
	return b.Value(), err
}

func (o *options) contactBody(kind string, v *vault, id *kel.Identity, to string) (wire.Value, error) {
	data, err := readInput(filepath.Join(v.dir, agentFile))
	if err != nil {
		return wire.Value{}, err
	}
	source, err := descriptor.DecodeStored(data)
	if err != nil {
		return wire.Value{}, err
	}
	if kind == "contact-rejected" {
		return admission.Body(admission.Rejected, profile.TextID, "", source, nil), nil
	}
	note, err := o.text("note")
	if err != nil {
		return wire.Value{}, err
	}
	permit, err := o.permit(id, to)
	if err != nil {
		return wire.Value{}, err
	}
	bodyKind := admission.Request
	if kind == "contact-accepted" {
		bodyKind = admission.Accepted
	}
	return admission.Body(bodyKind, profile.TextID, note, source, permit), nil
}

func (o *options) permit(id *kel.Identity, to string) (*admission.Permit, error) {
	return admission.IssuePermit(id, to, o.now, wire.MaxPermitLifetime)
}

// openPacket opens a packet as the identity of the folder and writes what it
// held, or the code of its rejection
// (interop#open-packet---from-agent-f---packet-p---out-r---now-n).
func openPacket(o *options) error {
	out, err := o.get("out")
	if err != nil {
		return err
	}
	v, err := loadVault(o.path, o.now)
	if err != nil {
		return err
	}
	log, err := o.senderKEL()
	if err != nil {
		return err
	}
	path, err := o.get("packet")
	if err != nil {
		return err
	}
	data, err := readInput(path)
	if err != nil {
		return err
	}
	result, err := v.open(data, log, o.now)
	if err != nil {
		if result, err = rejection(err); err != nil {
			return err
		}
	}
	return writeJSON(out, result)
}

// senderKEL returns the log in the file of --from-agent, which stands for the
// receiver's pin. The descriptor beside it is not looked at.
func (o *options) senderKEL() (wire.Value, error) {
	path, err := o.get("from-agent")
	if err != nil {
		return wire.Value{}, err
	}
	data, err := readInput(path)
	if err != nil {
		return wire.Value{}, err
	}
	agent, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return wire.Value{}, fmt.Errorf("%s: %w", path, err)
	}
	log, ok := agent.Get("kel")
	if !ok {
		return wire.Value{}, fmt.Errorf("%s: no kel", path)
	}
	return log, nil
}

func (v *vault) open(data []byte, senderKEL wire.Value, now int64) (wire.Value, error) {
	p, err := packet.Decode(data)
	if err != nil {
		return wire.Value{}, err
	}
	o := &opener{
		self:      v.log.ACEID(),
		senderKEL: senderKEL,
		now:       now,
		find:      func(id, from string) (prekey.Key, bool) { return v.find(id, from, now) },
		opened:    func(p *packet.Packet) error { return v.opened(p.Prekey, p.From, now) },
	}
	opened, err := o.open(p)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(append(opened.members(), boolean("ok", true))...), nil
}
