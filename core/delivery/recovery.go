package delivery

import (
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// recovery is the recovery data of a packet, verified
// (05#admission-recovery).
type recovery struct {
	proof  *admission.Permit // issued by this identity to the sender
	permit *admission.Permit // the sender's reply permit
	source *descriptor.PublishedAgent
}

// isRecoveryCandidate is 05#admission-recovery step 2: the receiver has no pin
// to authenticate the sender from, and the content carries a valid proof. A
// packet without one takes the path of contact candidates. A stranger that was
// looked up before is a stranger all the same.
func (in *incoming) isRecoveryCandidate() bool {
	unpinned := in.sender.state() == admission.Stranger || in.sender.pin == nil
	if !unpinned || in.content.Admission == nil || in.content.Type == profile.ContactType {
		return false
	}
	self := in.n.id.ACEID()
	proof, err := admission.VerifyPermit(in.content.Admission.Proof, in.n.id.State(), self, in.packet.From, in.now)
	if err != nil {
		return false
	}
	in.recovery = &recovery{proof: proof}
	return true
}

// authenticateRecovery is 05#admission-recovery step 3 up to the record: the
// source, the packet's signature under it, then the reply permit. The valid
// proof justifies that work, so the log may be longer than a stranger's. From
// here on the table's dispositions apply.
func (in *incoming) authenticateRecovery() error {
	r := in.recovery
	in.recovery = nil
	source, err := in.n.verifySource(in.packet.From, in.content.Admission.Source, in.sender.pin, in.now)
	if err != nil {
		return drop(fault.Wrapf(fault.InvalidAuthorization, err, "content.admission.source"))
	}
	_, state, err := kel.Reconcile(in.sender.pin, source.State())
	if err != nil {
		return drop(fault.Wrapf(fault.InvalidAuthorization, err, "content.admission.source"))
	}
	if err := in.verifySignature(state); err != nil { // 4
		return err
	}
	r.source = source
	r.permit, err = admission.VerifyPermit(in.content.Admission.Permit, state, in.packet.From, in.n.id.ACEID(), in.now)
	if err != nil {
		return drop(fault.Wrapf(fault.InvalidAuthorization, err, "content.admission.permit"))
	}
	in.recovery, in.state, in.candidate = r, state, false
	return nil
}

// restore is the record of 05#admission-recovery step 3: it pins the source,
// records the sender as admitted with the proof as the newest permit issued to
// it, and holds its permit. It is part of the transaction of step 10, whatever
// the later steps say of the packet. A sender that was blocked meanwhile is
// dropped.
func (in *incoming) restore(tx *store.Tx) error {
	from := in.packet.From
	row, _, err := tx.Contact(from, in.now)
	if err != nil {
		return err
	}
	if row.State == string(admission.Blocked) {
		in.candidate = true
		return drop(fault.New(fault.NotPermitted, "sender is blocked"))
	}
	a, err := in.n.adopt(tx, from, in.recovery.source.Value(), in.now)
	if err != nil {
		return err
	}
	if a.pin.LastHash() != in.state.LastHash() {
		return fault.New(fault.LockBusy, "the pin of %s moved: the packet is to be authenticated again", from)
	}
	in.sender.pin = a.pin
	// The sender presents the newest permit it holds. One that was issued to it
	// later did not arrive, so the proof takes its place on the record.
	if err := in.n.saveIssued(tx, from, in.recovery.proof); err != nil {
		return err
	}
	if err := in.n.hold(tx, from, a.pin, in.recovery.permit, in.now); err != nil {
		return err
	}
	if row.State == string(admission.Admitted) {
		return nil
	}
	// A new row records no profile; that of a pending one stays.
	row = store.Contact{Peer: from, State: string(admission.Admitted), Profile: row.Profile, Since: in.now}
	in.result.Contact = &row
	if err := note(tx, audit.ContactAdmitted, from, in.now); err != nil {
		return err
	}
	return tx.SetContact(row)
}
