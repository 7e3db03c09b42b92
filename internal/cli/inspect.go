package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

type inspectOptions struct {
	asRelay   bool
	recipient string
}

func newInspectCmd(a *app) *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:               "inspect FILE|-|MESSAGE_ID --as-relay [--recipient FILE]",
		ValidArgsFunction: a.complete(1, sentValues),
		Short:             "Show what a relay sees of a packet, and what it cannot",
		Long: `Show what a relay sees of a packet and what that tells it, and what it cannot
see. A packet is a FILE, - for standard input, or what the latest attempt of a
MESSAGE_ID of your outbox has made, as far as that is kept; the start of an ID is
enough, at least 8 characters. Nothing is decrypted or sealed, no network is used
and nothing is changed.

A relay knows the published prekey of whom it serves. --recipient gives you the
same knowledge of the recipient of a FILE.`,
		Example: `  ace inspect packet.json --as-relay
  ace inspect 0f5c1c0e --as-relay --json`,
	}
	f := c.Flags()
	f.BoolVar(&o.asRelay, "as-relay", false, "with the eyes of a relay, the only ones there are here")
	f.StringVar(&o.recipient, "recipient", "", "`FILE` with the recipient's published descriptor, to tell the kind of the prekey")
	return a.leaf(c, 1, 1, []any{relayView{}}, func(ctx context.Context, args []string) error { return runInspect(ctx, a, args[0], o) })
}

// The kinds of a prekey, as a relay tells them apart.
const (
	prekeyPublished = "published"
	prekeyPeer      = "peer"
	prekeyUnknown   = "unknown"
)

// relayView is a packet with the eyes of a relay (06#security-considerations,
// Relay). What is not known here is null: a packet in a file does not tell where
// it was posted, and the outbox does not keep packets. PayloadBytes is the least
// when Attempts is above 1: a later attempt may carry more. Reads has the names of
// the members with what each tells; client_address, posted_at and permit are not
// part of a packet and are no members. Hidden is what a relay cannot read.
type relayView struct {
	MessageID      string       `json:"message_id"`
	From           string       `json:"from"`
	To             string       `json:"to"`
	SignedAt       *int64       `json:"signed_at"`
	PrekeyID       *string      `json:"prekey_id"`
	PrekeyKind     string       `json:"prekey_kind"`
	SignatureSeq   *int64       `json:"signature_seq"`
	PayloadBytes   *int         `json:"payload_bytes"`
	SizeClassBytes *int         `json:"size_class_bytes"`
	Attempts       *int         `json:"attempts"`
	Relay          *string      `json:"relay"`
	Reads          []relayReads `json:"reads"`
	Hidden         []string     `json:"hidden"`
}

// relayReads is one thing that a relay reads and what it reveals.
type relayReads struct {
	Field   string `json:"field"`
	Reveals string `json:"reveals"`
}

func (r relayView) text(p *page) {
	if len(r.Reads) == 0 {
		p.line("no attempt has posted %s yet: no relay has seen anything of it", r.MessageID)
		return
	}
	p.line("a relay reads:")
	for _, read := range r.Reads {
		p.line("  %s: %s", strings.ReplaceAll(read.Field, "_", " "), r.value(p, read.Field))
		p.line("    %s", read.Reveals)
	}
	p.line("a relay cannot read:")
	for _, hidden := range r.Hidden {
		p.line("  %s", hidden)
	}
}

// notKept stands for what the relay has seen and the outbox does not keep.
const notKept = "not kept here"

// value shows a member of the answer.
func (r relayView) value(p *page, field string) string {
	switch field {
	case "message_id":
		return r.MessageID
	case "from":
		return r.From
	case "to":
		return r.To
	case "signed_at":
		if r.SignedAt == nil {
			return notKept
		}
		return p.time(*r.SignedAt)
	case "prekey_id":
		if r.PrekeyID == nil {
			return "none, the latest attempt encrypted nothing"
		}
		return *r.PrekeyID + " (" + r.PrekeyKind + ")"
	case "signature_seq":
		return p.numberOr(r.SignatureSeq, notKept)
	case "payload_bytes":
		return r.size()
	case "attempts":
		if r.Relay != nil {
			return fmt.Sprintf("%d, last taken by %s", *r.Attempts, clean(*r.Relay, false))
		}
		return fmt.Sprint(*r.Attempts)
	}
	return "not part of the packet"
}

func (r relayView) size() string {
	switch {
	case r.PayloadBytes == nil:
		return notKept
	case r.Attempts != nil && *r.Attempts > 1:
		return fmt.Sprintf("%d or more", *r.PayloadBytes)
	}
	return fmt.Sprintf("%d (up to %d)", *r.PayloadBytes, *r.SizeClassBytes)
}

func runInspect(ctx context.Context, a *app, subject string, o inspectOptions) error {
	if !o.asRelay {
		return usagef("say with whose eyes: --as-relay")
	}
	if isSentID(subject) {
		if o.recipient != "" {
			return usagef("--recipient is for a packet in a file: the outbox knows which prekey it was")
		}
		return inspectSent(ctx, a, subject)
	}
	return inspectPacket(a, subject, o.recipient)
}

// isSentID reports whether an argument is the start of a message ID and not the
// name of a file.
func isSentID(subject string) bool {
	if len(subject) < messageIDShown || strings.Trim(subject, "0123456789abcdef-") != "" {
		return false
	}
	_, err := os.Lstat(subject)
	return errors.Is(err, fs.ErrNotExist)
}

func inspectPacket(a *app, file, recipient string) error {
	text, err := a.readArg(file, wire.MaxPacketBytes, fault.InvalidPacket)
	if err != nil {
		return err
	}
	p, err := packet.Decode(text)
	if err != nil {
		return err
	}
	view := relayView{
		MessageID: p.MessageID, From: p.From, To: p.To, SignedAt: &p.Timestamp, PrekeyID: &p.Prekey, PrekeyKind: prekeyUnknown,
		SignatureSeq: &p.Signature.Seq,
	}
	view.setSize(len(p.Payload))
	if recipient != "" {
		if view.PrekeyKind, err = a.prekeyKind(p, recipient); err != nil {
			return err
		}
	}
	return a.print(view.explained())
}

// prekeyKind compares the prekey of a packet with the one that its recipient has
// published, as the relay can that has the descriptor.
func (a *app) prekeyKind(p *packet.Packet, recipient string) (string, error) {
	text, err := a.readArg(recipient, wire.MaxPublishedAgentBytes, fault.InvalidAuthorization)
	if err != nil {
		return "", err
	}
	o := descriptor.Options{}
	if a.flags.allowLoopback {
		o.URLs = wire.Development
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return "", fault.Wrap(fault.InvalidAuthorization, err)
	}
	d, err := descriptor.VerifyValue(v, a.io.Now(), o)
	switch {
	case err != nil:
		return "", err
	case d.ACEID != p.To:
		return "", usagef("%s is of %s, and the packet is for %s", recipient, d.ACEID, p.To)
	case suite.Hex256(d.Prekey) == p.Prekey:
		return prekeyPublished, nil
	}
	return prekeyPeer, nil
}

func inspectSent(ctx context.Context, a *app, typed string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	entry, err := s.outgoing(ctx, typed)
	if err != nil {
		return hintf(err, "ace outbox list shows the messages you have queued")
	}
	shown, err := s.Shown(ctx, entry.MessageID)
	if err != nil {
		return err
	}
	return a.print(viewOfSent(shown))
}

func viewOfSent(s core.Shown) relayView {
	view := relayView{
		MessageID: s.MessageID, From: s.From, To: s.To, PrekeyID: orNull(s.Prekey), PrekeyKind: prekeyUnknown,
		Attempts: &s.Attempts, Relay: orNull(s.Relay), Reads: []relayReads{}, Hidden: []string{},
	}
	if s.Prekey == "" && s.Relay == "" {
		return view
	}
	switch {
	case s.Prekey == "":
	case s.PrekeyIsPeer:
		view.PrekeyKind = prekeyPeer
	default:
		view.PrekeyKind = prekeyPublished
	}
	if s.PlaintextBytes > 0 {
		view.setSize(s.PlaintextBytes + suite.GCMNonceBytes + suite.GCMTagBytes)
	}
	return view.explained()
}

// setSize sets the length of the payload and the least power of two that it fits
// into. Payloads are not padded (03#encryption).
func (r *relayView) setSize(payload int) {
	class := 1 << bits.Len(uint(payload-1))
	r.PayloadBytes, r.SizeClassBytes = &payload, &class
}

// explained adds what each field tells, and what none does.
func (r relayView) explained() relayView {
	r.Reads = []relayReads{
		{"from", "who sends, as the packet says: a relay does not verify its signature"},
		{"to", "who receives"},
		{"message_id", "a random number; it stays the same, so that attempts of one message show as that"},
		{"signed_at", "when this attempt was made"},
		{"prekey_id", prekeyReveals[r.PrekeyKind]},
		{"signature_seq", "which event of the sender's log delegated the signing key, and so how often keys were replaced"},
		{"payload_bytes", "how long the content is, to the byte: nothing is padded"},
		{"permit", "beside the packet: that the recipient admitted the sender, and until when; without one it is a stranger's contact request"},
		{"client_address", "where whoever posts is, and which identities post from the same place"},
		{"posted_at", "when it was posted, fetched and acknowledged, and so who answers whom how fast"},
	}
	if r.Attempts != nil {
		r.Reads = append(r.Reads, relayReads{"attempts", "how often sending it was tried; each time that got through shows the same message ID"})
	}
	r.Hidden = []string{
		"the type of the message and its profile",
		"the body, and what a contact request or a receipt says",
		"the thread that it belongs to",
		"the peer prekey that it offers for the answer, and admission data of a retry",
		"what either side calls the other",
	}
	return r
}

// prekeyReveals is what the kind of a prekey tells (06#security-considerations).
var prekeyReveals = map[string]string{
	prekeyPublished: "the one that the recipient has published: a receipt, a contact packet, a retry, or the first attempt of a message where no peer prekey was held",
	prekeyPeer:      "not the one that the recipient has published: a peer prekey, so the first attempt of a message between two who have written before, or one that was published earlier",
	prekeyUnknown:   "compared with the recipient's descriptor, whether it is the published one: receipts, contact packets and retries use that, first attempts of messages a peer prekey where one is held",
}
