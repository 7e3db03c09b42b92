package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// incoming is one packet on its way through the receive pipeline.
type incoming struct {
	n     *Node
	now   int64
	tx    *store.Tx // of the chunk that it is part of, nil for a packet by itself
	known *known    // in the open transaction

	packet    *packet.Packet
	sender    peer       // as the store held it at step 2
	candidate bool       // the sender is not authenticated from a pin, nor by its recovery data
	state     *kel.State // the log the packet is authenticated under, nil before

	plaintext []byte
	peerKey   bool            // it opened under a peer prekey
	content   *packet.Content // nil until step 7, and only its Prekey set when that fails

	contact  *admission.Contact         // of an ace:contact:1
	source   *descriptor.PublishedAgent // verified, of an ace:contact:1
	recovery *recovery                  // verified, of a recovery candidate
	receipt  *ReceiptBody               // of an ace:receipt:1
	current  string                     // the sender's published prekey after a refresh, "" unless needed
	permit   *admission.Permit          // verified: the reply permit of a contact, the renewal of a receipt

	result Result
	accept bool // a contact request was accepted, by step 10 or before: the reply is due
}

// receive takes one packet through the pipeline of 06#receive-pipeline, all but
// the acknowledgement. The error is the end of ctx or a failure to record the
// outcome; every other failure is the outcome of the packet.
func (n *Node) receive(ctx context.Context, e Entry, now int64) (Result, error) {
	in := &incoming{n: n, now: now}
	return in.finish(ctx, in.run(ctx, e.Packet))
}

// view runs f in the transaction of the chunk, or in one of its own.
func (in *incoming) view(ctx context.Context, f func(*store.Tx) error) error {
	if in.tx != nil {
		return f(in.tx)
	}
	return in.n.store.View(ctx, in.knowingNothing(f))
}

// update is view for what writes.
func (in *incoming) update(ctx context.Context, f func(*store.Tx) error) error {
	if in.tx != nil {
		return f(in.tx)
	}
	return in.n.store.Update(ctx, in.knowingNothing(f))
}

// knowingNothing is f in a transaction of its own.
func (in *incoming) knowingNothing(f func(*store.Tx) error) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		in.known = newKnown(tx, in.n.seen)
		in.known.at(in.now)
		return f(tx)
	}
}

// run is steps 1 to 3, which decide how the rest goes.
func (in *incoming) run(ctx context.Context, raw wire.Value) error {
	if err := in.decode(raw); err != nil { // 1
		return err
	}
	if err := in.loadSender(ctx); err != nil {
		return err
	}
	switch admission.Receive(in.sender.state()) { // 2
	case admission.Drop:
		return drop(fault.New(fault.NotPermitted, "sender is blocked"))
	case admission.Candidate:
		return in.receiveCandidate(ctx)
	}
	behind, err := in.refreshPin(ctx) // 3
	if err != nil {
		return err
	}
	if behind {
		return in.receiveCandidate(ctx)
	}
	return in.receivePinned(ctx)
}

// receivePinned goes on with a packet of a sender whose pin can authenticate it.
func (in *incoming) receivePinned(ctx context.Context) error {
	in.state = in.sender.pin
	if err := in.verifySignature(in.state); err != nil { // 4
		return err
	}
	if err := in.checkWindow(); err != nil { // 5
		return err
	}
	if err := in.open(ctx); err != nil { // 6
		return err
	}
	judged := in.readContent() // 7
	if judged == nil {
		judged = in.matchBody() // 8
	}
	if judged == nil {
		judged = in.checkCore(ctx)
	}
	return in.commit(ctx, judged) // 9, 10
}

// receiveCandidate goes on with a packet that only its own source can
// authenticate, in the order 06#receive-pipeline gives contact and recovery
// candidates. Every failure before that is drop, and the pin changes in the
// transaction of step 10 alone.
func (in *incoming) receiveCandidate(ctx context.Context) error {
	in.candidate = true
	if err := in.checkWindow(); err != nil { // 5
		return err
	}
	if err := in.open(ctx); err != nil { // 6
		return err
	}
	judged := in.readContent() // 7
	if judged == nil {
		judged = in.authenticateCandidate(ctx) // 8 with it
	}
	return in.commit(ctx, judged) // 9, 10
}

func (in *incoming) authenticateCandidate(ctx context.Context) error {
	if in.isRecoveryCandidate() {
		if err := in.authenticateRecovery(); err != nil {
			return err
		}
		return in.matchBody() // 8
	}
	if err := in.matchBody(); err != nil { // 8
		return err
	}
	return in.authenticateContact(ctx)
}

// finish turns the end of the pipeline into a result and makes step 11.
func (in *incoming) finish(ctx context.Context, err error) (Result, error) {
	if err := in.conclude(ctx, err); err != nil {
		return in.result, err
	}
	err = in.answer(ctx)
	return in.result, err
}

// conclude turns the end of the pipeline into a result.
func (in *incoming) conclude(ctx context.Context, err error) error {
	r := &in.result
	if in.packet != nil {
		r.MessageID, r.From = in.packet.MessageID, in.packet.From
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var s *stop
	switch {
	case err == nil:
		r.Outcome = Delivered
	case errors.As(err, &s):
		r.Outcome, r.Code = s.outcome, fault.CodeOf(s.cause)
	default:
		r.Outcome, r.Code = Retry, fault.CodeOf(err) // step 10: storage failure
	}
	switch r.Outcome {
	case Dropped, Rejected, Duplicate:
		return in.update(ctx, func(tx *store.Tx) error { return noteResult(tx, *r, in.now) })
	}
	return nil
}

// answer is step 11: the receipt, or the reply to a contact request that was
// accepted. A receipt that cannot be sent for now makes the packet a retry.
func (in *incoming) answer(ctx context.Context) error {
	if in.replyDue() {
		return in.replyAccepted(ctx)
	}
	body, due := in.receiptBody()
	if !due {
		return nil
	}
	return in.answered(ctx, in.n.sendReceipt(ctx, in.packet.From, body, in.now))
}

// replyDue reports whether the packet is a contact request that was accepted.
func (in *incoming) replyDue() bool {
	return in.accept && (in.result.Outcome == Delivered || in.result.Outcome == Duplicate)
}

// answered takes in how sending the receipt ended.
func (in *incoming) answered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		in.result.Outcome, in.result.Code, in.result.Unreceipted = Retry, fault.CodeOf(err), true
	}
	return nil
}

// receiptBody returns the receipt that the outcome calls for: one for every
// authenticated packet that was delivered, a duplicate or rejected, except
// those of the core profile (06#receipts).
func (in *incoming) receiptBody() (body ReceiptBody, due bool) {
	if in.content != nil && isCore(in.content.Type) {
		return body, false
	}
	body = ReceiptBody{MessageID: in.result.MessageID, Outcome: OutcomeDelivered}
	switch in.result.Outcome {
	case Delivered, Duplicate:
		return body, true
	case Rejected:
		body.Outcome, body.Code = OutcomeRejected, string(in.result.Code)
		if in.result.Code == fault.UnknownPrekey {
			body.Prekey = in.packet.Prekey
		}
		return body, true
	}
	return body, false
}
