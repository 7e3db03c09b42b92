package commerce

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// Reference returns the member by which a message of the given type refers to an
// earlier one of its thread, and the message ID that it has to equal there
// (commerce#references). The member is "" for a type without one.
func Reference(messageType string, t profile.Thread) (member, messageID string) {
	switch messageType {
	case Accept:
		return "offerId", t.Head.MessageID // the latest offer
	case Invoice:
		return "offerId", t.Before.MessageID // the accepted offer, just before the accept
	case Payment:
		return "referenceId", t.Head.MessageID // the invoice, or the buyer's own accept
	case Confirm:
		return "deliverId", t.Head.MessageID
	}
	return "", ""
}

func checkReference(messageType string, t profile.Thread, body wire.Value) error {
	member, want := Reference(messageType, t)
	if member == "" {
		return nil
	}
	stated, _ := body.Get(member)
	if id, ok := stated.AsString(); !ok || id != want {
		return fault.New(BadReference, "body.%s: not %s, the message that it has to name", member, want)
	}
	return nil
}
