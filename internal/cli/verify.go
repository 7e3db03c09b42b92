package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/wire"
)

func newPacketCmd(a *app) *cobra.Command {
	var sender string
	c := &cobra.Command{
		Use:   "verify FILE|- [--sender FILE]",
		Short: "Check a packet",
		Long: `Check the form of a packet, and with --sender also its signature and its time.
Nothing is decrypted; no network is used and nothing is changed.`,
	}
	c.Flags().StringVar(&sender, "sender", "", "`FILE` with the sender's key event log, or with a document that carries it")
	return a.group(&cobra.Command{Use: "packet", Short: "Look into packets"},
		a.leaf(c, 1, 1, []any{packetAnswer{}}, func(_ context.Context, args []string) error {
			return runPacketVerify(a, args[0], sender)
		}))
}

func newKELCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "verify FILE|-", Short: "Verify a key event log", Long: "Verify a key event log, alone or in a document that carries it. No network is\nused and nothing is changed."}
	return a.group(&cobra.Command{Use: "kel", Short: "Look into key event logs"},
		a.leaf(c, 1, 1, []any{kelAnswer{}}, func(_ context.Context, args []string) error { return runKELVerify(a, args[0]) }))
}

func newDescriptorCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "verify FILE|-", Short: "Verify a published descriptor or card", Long: "Verify a published descriptor {kel, descriptor} or card {kel, card}. No network\nis used and nothing is changed."}
	return a.group(&cobra.Command{Use: "descriptor", Short: "Look into descriptors and cards"},
		a.leaf(c, 1, 1, []any{documentAnswer{}}, func(_ context.Context, args []string) error { return runDescriptorVerify(a, args[0]) }))
}

func newPermitCmd(a *app) *cobra.Command {
	var issuer string
	c := &cobra.Command{
		Use:   "verify FILE|- [--issuer FILE]",
		Short: "Check a delivery permit",
		Long: `Check the form of a delivery permit, and with --issuer also its signature and
its time. No network is used and nothing is changed.`,
	}
	c.Flags().StringVar(&issuer, "issuer", "", "`FILE` with the issuer's key event log, or with a document that carries it")
	return a.group(&cobra.Command{Use: "permit", Short: "Look into delivery permits, and renew them"},
		newPermitListCmd(a), newPermitRenewCmd(a), a.leaf(c, 1, 1, []any{permitAnswer{}}, func(_ context.Context, args []string) error {
			return runPermitVerify(a, args[0], issuer)
		}))
}

// packetAnswer describes a packet. Signature is "verified" or "unchecked".
type packetAnswer struct {
	MessageID    string `json:"message_id"`
	From         string `json:"from"`
	To           string `json:"to"`
	SignedAt     int64  `json:"signed_at"`
	PrekeyID     string `json:"prekey_id"`
	SignatureSeq int64  `json:"signature_seq"`
	PayloadBytes int    `json:"payload_bytes"`
	Signature    string `json:"signature"`
}

const (
	signatureVerified  = "verified"
	signatureUnchecked = "unchecked"
)

func (r packetAnswer) text(p *page) {
	p.row("message", r.MessageID)
	p.row("from", r.From)
	p.row("to", r.To)
	p.row("signed", p.time(r.SignedAt))
	p.row("prekey", r.PrekeyID)
	p.row("payload", fmt.Sprintf("%d bytes", r.PayloadBytes))
	p.row("signature", r.Signature)
}

func runPacketVerify(a *app, file, sender string) error {
	text, err := a.readArg(file, wire.MaxPacketBytes, fault.InvalidPacket)
	if err != nil {
		return err
	}
	p, err := packet.Decode(text)
	if err != nil {
		return err
	}
	r := packetAnswer{
		MessageID: p.MessageID, From: p.From, To: p.To, SignedAt: p.Timestamp, PrekeyID: p.Prekey,
		SignatureSeq: p.Signature.Seq, PayloadBytes: len(p.Payload), Signature: signatureUnchecked,
	}
	if sender != "" {
		log, err := a.readLog(sender)
		if err != nil {
			return err
		}
		if err := p.VerifySignature(log, a.io.Now()); err != nil {
			return err
		}
		if err := p.CheckWindow(a.io.Now()); err != nil {
			return err
		}
		r.Signature = signatureVerified
	}
	return a.print(r)
}

// kelAnswer describes a verified log.
type kelAnswer struct {
	ACEID        string     `json:"ace_id"`
	Usable       bool       `json:"usable"`
	KeyExpiresAt *int64     `json:"key_expires_at"`
	Events       []kelEvent `json:"events"`
}

type kelEvent struct {
	Seq       int64  `json:"seq"`
	Type      string `json:"type"`
	CreatedAt int64  `json:"created_at"`
	Hash      string `json:"hash"`
}

func (r kelAnswer) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("usable", yesNo(r.Usable))
	if r.KeyExpiresAt != nil {
		p.row("signing key until", p.time(*r.KeyExpiresAt))
	}
	for _, e := range r.Events {
		p.row(fmt.Sprint(e.Seq), e.Type, p.time(e.CreatedAt), e.Hash)
	}
}

func runKELVerify(a *app, file string) error {
	log, err := a.readLog(file)
	if err != nil {
		return err
	}
	return a.print(describeLog(log, a.io.Now()))
}

func describeLog(log *kel.State, now int64) kelAnswer {
	r := kelAnswer{ACEID: log.ACEID(), Usable: log.Usable(now)}
	if d := log.Delegated(); d != nil {
		r.KeyExpiresAt = timeOrNull(d.NotAfter)
	}
	for _, e := range log.Events() {
		r.Events = append(r.Events, kelEvent{e.Seq, e.Type, e.TS, e.Hash})
	}
	return r
}

// readLog reads and verifies a key event log: a file of its own, or the kel
// member of a document.
func (a *app) readLog(file string) (*kel.State, error) {
	text, err := a.readArg(file, wire.MaxPublishedAgentBytes, fault.InvalidKEL)
	if err != nil {
		return nil, err
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidKEL, err)
	}
	if log, ok := v.Get("kel"); ok {
		v = log
	}
	return kel.Verify(v, a.io.Now())
}

// documentAnswer describes a verified document: one of its two members is null.
type documentAnswer struct {
	ACEID      string            `json:"ace_id"`
	KELSeq     int64             `json:"kel_seq"`
	Descriptor *descriptorAnswer `json:"descriptor"`
	Card       *cardAnswer       `json:"card"`
}

func (r documentAnswer) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("log events", fmt.Sprint(r.KELSeq+1))
	if d := r.Descriptor; d != nil {
		p.row("issued", p.time(d.IssuedAt))
		p.row("expires", p.time(d.ExpiresAt))
		for _, url := range d.Relays {
			p.row("relay", url)
		}
		for _, f := range d.Profiles {
			p.row("profile", clean(f.ID, false), f.Digest)
		}
		p.row("prekey", d.PrekeyID)
		return
	}
	p.row("issued", p.time(r.Card.IssuedAt))
	p.row("home", r.Card.Home)
	r.Card.text(p)
}

func runDescriptorVerify(a *app, file string) error {
	text, err := a.readArg(file, wire.MaxPublishedAgentBytes, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	o := descriptor.Options{}
	if a.flags.allowLoopback {
		o.URLs = wire.Development
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return fault.Wrap(fault.InvalidAuthorization, err)
	}
	if _, isCard := v.Get("card"); isCard {
		b, err := descriptor.VerifyCardValue(v, a.io.Now(), o)
		if err != nil {
			return err
		}
		card := describeCard(b)
		return a.print(documentAnswer{ACEID: b.ACEID, KELSeq: b.State().Seq(), Card: &card})
	}
	d, err := descriptor.VerifyValue(v, a.io.Now(), o)
	if err != nil {
		return err
	}
	answer := describeDescriptor(d)
	return a.print(documentAnswer{ACEID: d.ACEID, KELSeq: d.State().Seq(), Descriptor: &answer})
}

// permitAnswer describes a delivery permit.
type permitAnswer struct {
	Issuer    string `json:"issuer"`
	Subject   string `json:"subject"`
	IssuedAt  int64  `json:"issued_at"`
	ExpiresAt int64  `json:"expires_at"`
	Signature string `json:"signature"`
}

func (r permitAnswer) text(p *page) {
	p.row("issuer", r.Issuer)
	p.row("subject", r.Subject)
	p.row("issued", p.time(r.IssuedAt))
	p.row("expires", p.time(r.ExpiresAt))
	p.row("signature", r.Signature)
}

// permitLimit bounds the text of a permit in bytes; its signature alone takes
// 4412.
const permitLimit = 1 << 16

func runPermitVerify(a *app, file, issuer string) error {
	text, err := a.readArg(file, permitLimit, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return fault.Wrap(fault.InvalidAuthorization, err)
	}
	p, err := admission.DecodePermit(v)
	if err != nil {
		return err
	}
	r := permitAnswer{p.Issuer, p.Subject, p.IssuedAt, p.ExpiresAt, signatureUnchecked}
	if issuer != "" {
		log, err := a.readLog(issuer)
		if err != nil {
			return err
		}
		if err := p.Verify(log, p.Issuer, p.Subject, a.io.Now()); err != nil {
			return err
		}
		r.Signature = signatureVerified
	}
	return a.print(r)
}
