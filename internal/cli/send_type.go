package cli

import (
	"context"
	"strings"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// shortType is the short name of a type of an official profile, and the type
// itself of any other.
func shortType(messageType string) string {
	if parts := strings.Split(messageType, ":"); len(parts) > 2 && parts[0] == "ace" {
		return parts[len(parts)-2]
	}
	return messageType
}

// isCommerce reports whether a type is one of those that belong to a thread.
func isCommerce(messageType string) bool {
	msg, ok := official().messageType(messageType)
	return ok && msg.Profile == profile.CommerceID
}

// checkThread completes the thread of a message: an rfq opens one of its own
// where none is given, and every other commerce message belongs to one.
func (o *sendOptions) checkThread() error {
	switch {
	case o.thread != "" && !wire.IsThreadID(o.thread):
		return usagef("--thread is text of at most %d characters without control characters", wire.MaxThreadIDLength)
	case o.thread != "" || !isCommerce(o.messageType):
		return nil
	case o.messageType != commerce.RFQ:
		return hintf(usagef("%s belongs to a thread: give --thread", shortType(o.messageType)), "ace thread list shows them")
	}
	o.thread, o.opened = suite.NewMessageID(), true
	return nil
}

// repeats completes a message as the one was that was queued with the same
// --request-id: the thread that an rfq opened, and the reference that was added.
func (o *sendOptions) repeats(earlier core.Outgoing, body wire.Value) wire.Value {
	if o.opened && earlier.Type == o.messageType {
		o.thread = earlier.ThreadID
	}
	if !isCommerce(o.messageType) || o.body != "" || o.bodyFile != "" || earlier.Type != o.messageType {
		return body
	}
	member, _ := commerce.Reference(o.messageType, profile.Thread{})
	held, has := earlier.Body.Get(member)
	if _, set := body.Get(member); set || !has {
		return body
	}
	return body.With(member, held)
}

// refer adds the reference to an earlier message of the thread that a commerce
// message has to carry, unless it is set. What the thread has no message for is
// left to the rule, which says what is wrong.
func (s *session) refer(ctx context.Context, peer string, body wire.Value, o sendOptions) (wire.Value, error) {
	if !isCommerce(o.messageType) || o.body != "" || o.bodyFile != "" {
		return body, nil
	}
	member, id, err := s.Reference(ctx, peer, o.thread, o.messageType)
	if err != nil || member == "" {
		return body, err
	}
	if _, set := body.Get(member); set {
		return body, nil
	}
	return body.With(member, wire.NewString(id)), nil
}
