package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// decode is step 1.
func (in *incoming) decode(raw wire.Value) error {
	p, err := packet.DecodeValue(raw)
	if err != nil {
		return drop(err)
	}
	in.packet = p
	if p.To != in.n.id.ACEID() {
		return drop(fault.New(fault.WrongRecipient, "packet.to: not this identity"))
	}
	return nil
}

func (in *incoming) loadSender(ctx context.Context) (err error) {
	return in.view(ctx, func(tx *store.Tx) error {
		in.sender, err = in.loadPeer(tx)
		return err
	})
}

// refreshPin is step 3. It reports whether the pin cannot authenticate the
// packet: there is none, or it is still behind after a refresh, or the refresh
// failed for good.
func (in *incoming) refreshPin(ctx context.Context) (behind bool, err error) {
	if in.sender.pin == nil {
		return true, nil
	}
	if !in.isBehind(in.sender.pin) {
		return false, nil
	}
	if in.tx != nil {
		return false, errAlone
	}
	if err := in.claimRefresh(ctx); err != nil {
		return false, err
	}
	p, err := in.n.refreshed(ctx, in.sender, in.now)
	switch {
	case isTransient(err):
		return false, retry(err)
	case err != nil:
		// The pin may have moved although no descriptor was usable.
		return true, in.loadSender(ctx)
	}
	in.sender = p
	return in.isBehind(p.pin), nil
}

// isBehind reports whether the packet names a delegation newer than the pinned
// one.
func (in *incoming) isBehind(pin *kel.State) bool {
	d := pin.Delegated()
	return d == nil || in.packet.Signature.Seq > d.Seq
}

// claimRefresh allows one refresh per sender and PIN_REFRESH_INTERVAL_SECONDS.
func (in *incoming) claimRefresh(ctx context.Context) error {
	return in.n.store.Update(ctx, func(tx *store.Tx) error {
		at, ok, err := tx.PinRefreshed(in.packet.From)
		if err != nil {
			return err
		}
		if since := in.now - at; ok && since >= 0 && since < wire.PinRefreshIntervalSeconds {
			return retry(fault.New(fault.FetchFailed, "the pin of %s was refreshed %d s ago", in.packet.From, since))
		}
		return tx.SetPinRefreshed(in.packet.From, in.now)
	})
}

// verifySignature is step 4.
func (in *incoming) verifySignature(state *kel.State) error {
	if err := in.packet.VerifySignature(state, in.now); err != nil {
		return drop(err)
	}
	return nil
}

// checkWindow is step 5.
func (in *incoming) checkWindow() error {
	if err := in.packet.CheckWindow(in.now); err != nil {
		return drop(err)
	}
	return nil
}

// open is step 6.
func (in *incoming) open(ctx context.Context) error {
	var found bool
	err := in.view(ctx, func(tx *store.Tx) error {
		k, ok, err := tx.Prekey(in.packet.Prekey)
		if err != nil || !ok || !mayOpen(k, in.packet.From, in.now) {
			return err
		}
		found, in.peerKey = true, k.Peer != ""
		return tx.UsePrekey(k.ID, in.decrypt)
	})
	if err == nil && !found {
		err = in.refuse(fault.New(fault.UnknownPrekey, "packet.encryption.prekey: no such key is held"))
	}
	return err
}

func (in *incoming) decrypt(key *suite.DecapsulationKey) (err error) {
	if in.plaintext, err = in.packet.Open(key); err != nil {
		return drop(err)
	}
	return nil
}

// readContent is step 7.
func (in *incoming) readContent() error {
	content, err := packet.ParseContent(in.plaintext)
	in.content = content
	if err != nil {
		return in.refuse(err)
	}
	if _, ok := in.n.profiles.Installed(content.Type, content.SchemaDigest); !ok {
		return in.refuse(fault.New(fault.UnsupportedSchema, "content.type: %.80q with this schema is not installed", content.Type))
	}
	return nil
}

// matchBody is step 8.
func (in *incoming) matchBody() error {
	message, _ := in.n.profiles.Installed(in.content.Type, in.content.SchemaDigest)
	if err := message.Schema.Match(in.content.Body); err != nil {
		return in.refuse(fault.Wrapf(fault.InvalidBody, err, "content.body"))
	}
	return nil
}

// refuse is reject where the table of 06#receive-pipeline says so, and drop for
// candidates and for packets of the core profile, which never produce receipts.
func (in *incoming) refuse(err error) error {
	if in.candidate || isCore(in.contentType()) {
		return drop(err)
	}
	return reject(err)
}

// contentType returns the type that the content states, also of content that
// step 7 refused, or "".
func (in *incoming) contentType() string {
	if in.content != nil && in.content.Type != "" {
		return in.content.Type
	}
	v, err := wire.Parse(in.plaintext, wire.MaxJSONDepth)
	if err != nil {
		return ""
	}
	stated, _ := v.Get("type")
	text, _ := stated.AsString()
	return text
}

// checkCore runs the core rules of step 10 that need the sender's log or the
// network, for a receipt or contact packet.
func (in *incoming) checkCore(ctx context.Context) error {
	switch in.content.Type {
	case profile.ReceiptType:
		return in.checkReceipt(ctx)
	case profile.ContactType:
		return in.checkContact()
	}
	return nil
}

// checkReceipt verifies a receipt (06#receipts). One that asks for it makes the
// sender's descriptor be refreshed, before the transaction of step 10.
func (in *incoming) checkReceipt(ctx context.Context) (err error) {
	in.receipt, in.permit, err = VerifyReceipt(in.content.Body, in.packet.From, in.n.id.ACEID(), in.state, in.now)
	if err != nil {
		return drop(err)
	}
	asks, err := in.receiptAsksForDescriptor(ctx)
	if err != nil || !asks {
		return err
	}
	if in.tx != nil {
		return errAlone
	}
	if p, err := in.n.refreshed(ctx, in.sender, in.now); err == nil {
		in.current = p.agent.PrekeyID
	}
	return ctx.Err()
}

func (in *incoming) receiptAsksForDescriptor(ctx context.Context) (asks bool, err error) {
	err = in.view(ctx, func(tx *store.Tx) error {
		verdict, err := in.known.seen.judge(in.seen())
		if err != nil || verdict != VerdictNew {
			return err
		}
		e, applied, err := in.receiptTarget(tx)
		if err != nil || e.MessageID == "" || applied {
			return err
		}
		expire(&e, in.now)
		asks = asksForDescriptor(e, in.receipt)
		return nil
	})
	return asks, err
}

// authenticateContact authenticates a contact candidate: its source verifies as
// a PublishedAgent naming from, under the sender's pin if there is one, and the
// packet's signature under the log of that source (06#receive-pipeline).
func (in *incoming) authenticateContact(ctx context.Context) error {
	var setting string
	err := in.view(ctx, func(tx *store.Tx) (err error) {
		setting, err = in.n.contactSetting(tx)
		return err
	})
	if err != nil {
		return err
	}
	sender := in.sender.state()
	if !admission.IsContactCandidate(sender, setting, in.content.Type, in.content.Body) {
		return drop(fault.New(fault.NotPermitted, "packet of a sender that no pin authenticates"))
	}
	if in.contact, err = admission.DecodeContact(in.content.Body); err != nil {
		return drop(err)
	}
	if sender == admission.Stranger {
		if err := in.contact.CheckStrangerSource(); err != nil {
			return drop(err)
		}
	}
	if err := in.verifyContactSource(); err != nil {
		return err
	}
	if err := in.verifySignature(in.state); err != nil {
		return err
	}
	return in.verifyContactPermit()
}

// checkContact verifies the contact packet of a pinned sender
// (05#contact-requests).
func (in *incoming) checkContact() (err error) {
	if in.contact, err = admission.DecodeContact(in.content.Body); err != nil {
		return drop(err)
	}
	if err := in.verifyContactSource(); err != nil {
		return err
	}
	return in.verifyContactPermit()
}

func (in *incoming) verifyContactSource() (err error) {
	o := in.n.verify
	o.Pin = in.sender.pin
	if in.source, err = in.contact.VerifySource(in.packet.From, in.now, o); err != nil {
		return drop(err)
	}
	_, in.state, err = kel.Reconcile(in.sender.pin, in.source.State())
	if err != nil {
		return drop(err)
	}
	return nil
}

func (in *incoming) verifyContactPermit() (err error) {
	in.permit, err = in.contact.VerifyPermit(in.state, in.packet.From, in.n.id.ACEID(), in.now)
	if err != nil {
		return drop(err)
	}
	if !in.n.shares(in.contact.Profile, in.source.Profiles) {
		return drop(fault.New(fault.InvalidBody, "body.profile: %.80q is not shared with an equal digest", in.contact.Profile))
	}
	return nil
}

// seen is the packet as the seen store knows it.
func (in *incoming) seen() store.Seen {
	return store.Seen{Timestamp: in.packet.Timestamp, Peer: in.packet.From, MessageID: in.packet.MessageID}
}

// applyPrekeys applies the issuer and holder rules of 04#peer-prekeys to a
// packet that opened, whatever becomes of it from step 7 on.
func (in *incoming) applyPrekeys(tx *store.Tx) error {
	if err := in.deleteEndedSeeds(tx); err != nil {
		return err
	}
	if in.peerKey {
		if err := in.applyIssuer(tx); err != nil {
			return err
		}
	}
	if in.candidate || in.content == nil {
		return nil // not pinned when it was processed, or no well-formed prekey
	}
	return in.recordHeld(tx, prekey.Carried{
		PublicKey: in.content.Prekey,
		Timestamp: in.packet.Timestamp,
		Pin:       in.sender.pin.LastHash(),
		Contact:   in.contentType() == profile.ContactType,
	})
}

// commit is steps 9 and 10 in one transaction, which the prekey rules join. A
// packet that failed before, or fails here, still has them applied.
func (in *incoming) commit(ctx context.Context, judged error) error {
	var s *stop
	if judged != nil && !errors.As(judged, &s) {
		return judged
	}
	err := in.update(ctx, func(tx *store.Tx) error {
		if in.recovery != nil {
			if err := in.restore(tx); errors.As(err, &s) {
				judged = err // before what step 8 says: the sender is not recorded
			} else if err != nil {
				return err
			}
		}
		if err := in.applyPrekeys(tx); err != nil {
			return err
		}
		if judged != nil {
			return nil
		}
		judged = in.deliver(tx)
		if judged != nil && !errors.As(judged, &s) {
			return judged
		}
		return nil
	})
	if err != nil {
		in.result = Result{} // nothing of it is durable
		return err
	}
	return judged
}
