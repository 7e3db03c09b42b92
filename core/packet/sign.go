package packet

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// SignaturePayload returns the payload of the action packet: the signature
// commits to the ciphertext, so that it is verified before anything is
// decrypted (03#signature).
func SignaturePayload(to, messageID, prekeyID string, kemCiphertext, payload []byte) []byte {
	size := 5*4 + len(to) + len(messageID) + len(prekeyID) + len(kemCiphertext) + len(payload)
	b := wire.AppendField(make([]byte, 0, size), to)
	b = wire.AppendField(b, messageID)
	b = wire.AppendField(b, prekeyID)
	b = wire.AppendField(b, kemCiphertext)
	return wire.AppendField(b, payload)
}

func (p *Packet) signaturePayload() []byte {
	return SignaturePayload(p.To, p.MessageID, p.Prekey, p.KEMCiphertext, p.Payload)
}

// VerifySignature verifies the packet signature as an operational signature of
// sender, which has to be the state of the identity that From names
// (03#signature, 01#operational-signatures). Codes: invalid_signature, also for
// a state of another identity; stale_peer_binding.
func (p *Packet) VerifySignature(sender *kel.State, now int64) error {
	if sender.ACEID() != p.From {
		return fault.New(fault.InvalidSignature, "packet: key event log of %s, not of the sender", sender.ACEID())
	}
	return sender.VerifySignature(kel.ActionPacket, p.Signature, p.Timestamp, now, p.signaturePayload(), fault.InvalidSignature)
}

// CheckWindow checks that the timestamp is neither older than
// OFFLINE_WINDOW_SECONDS nor more than TIMESTAMP_WINDOW_SECONDS ahead of now
// (06#receive-pipeline step 5, 07#send step 1). Codes: invalid_argument (the
// clock), stale_timestamp.
func (p *Packet) CheckWindow(now int64) error { return checkWindow(p.Timestamp, now) }

// CheckWindow is [Packet.CheckWindow], with the same codes.
func (e Envelope) CheckWindow(now int64) error { return checkWindow(e.Timestamp, now) }

func checkWindow(timestamp, now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if timestamp < now-wire.OfflineWindowSeconds || timestamp > now+wire.TimestampWindowSeconds {
		return fault.New(fault.StaleTimestamp, "packet.timestamp: %d at %d, outside the window", timestamp, now)
	}
	return nil
}
