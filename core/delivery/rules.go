package delivery

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// checkSend is the rule side of Enqueue: the thread is not busy, and then the
// rule for the type lets the message pass (08#sender-state-and-busy-threads
// step 1). It sees committed state only.
func (n *Node) checkSend(tx *store.Tx, entry store.OutboxEntry, body wire.Value, now int64) error {
	rule, ok := n.profiles.Rule(entry.Type)
	if !ok {
		return nil
	}
	if err := n.checkBusy(tx, entry.Peer, entry.ThreadID, now); err != nil {
		return err
	}
	return rule.Check(n.ruleState(tx, entry.Type, nil, now), n.sendEvent(entry), body)
}

// commitSent is the rule's commit for a sent message, due when its delivered
// receipt comes, also a late one (08#sender-state-and-busy-threads steps 2 and
// 4).
func (n *Node) commitSent(tx *store.Tx, entry store.OutboxEntry, now int64) error {
	rule, ok := n.profiles.Rule(entry.Type)
	if !ok {
		return nil
	}
	content, err := StoredContent(entry)
	if err != nil {
		return err
	}
	return rule.Commit(n.ruleState(tx, entry.Type, nil, now), n.sendEvent(entry), content.Body)
}

func (n *Node) sendEvent(entry store.OutboxEntry) profile.Event {
	return profile.Event{
		Direction: profile.Send, From: n.id.ACEID(), To: entry.Peer, MessageID: entry.MessageID,
		Timestamp: entry.CreatedAt, Type: entry.Type, ThreadID: entry.ThreadID,
	}
}

// checkRule is the first half of step 10 for a message: the busy-thread check,
// then the rule for the type (06#receive-pipeline).
//
// A message whose delivery record is there was judged when it came. It is here
// again because the seen store forgot it, and judged again it would meet the
// state that it has changed itself.
func (in *incoming) checkRule(tx *store.Tx) error {
	rule, ok := in.n.profiles.Rule(in.content.Type)
	if !ok {
		return nil
	}
	for _, taken := range []func(peer, messageID string) (bool, error){tx.HasMessage, tx.HasWithheld} {
		if was, err := taken(in.packet.From, in.packet.MessageID); err != nil || was {
			return err
		}
	}
	if err := in.n.checkBusy(tx, in.packet.From, in.content.ThreadID, in.now); err != nil {
		return refusal(err)
	}
	return refusal(rule.Check(in.n.ruleState(tx, in.content.Type, in.state, in.now), in.event(), in.content.Body))
}

// refusal makes a verdict a reject: thread_busy, and the permanent codes of
// rules. Any other error is no verdict: the state could not be read, and the
// packet is processed again.
func refusal(err error) error {
	switch code := fault.CodeOf(err); {
	case code == "", code.Retryable() && code != fault.ThreadBusy:
		return err
	}
	return reject(err)
}

// commitRule is the rule's commit of step 10, in the transaction of the delivery
// record.
func (in *incoming) commitRule(tx *store.Tx) error {
	rule, ok := in.n.profiles.Rule(in.content.Type)
	if !ok {
		return nil
	}
	return rule.Commit(in.n.ruleState(tx, in.content.Type, in.state, in.now), in.event(), in.content.Body)
}

func (in *incoming) event() profile.Event {
	return profile.Event{
		Direction: profile.Receive, From: in.packet.From, To: in.packet.To, MessageID: in.packet.MessageID,
		Timestamp: in.packet.Timestamp, Type: in.content.Type, ThreadID: in.content.ThreadID,
	}
}

// ruleState is what the rule for a message type may reach in tx. sender is the
// log that the packet is authenticated under, nil on send.
func (n *Node) ruleState(tx *store.Tx, messageType string, sender *kel.State, now int64) profile.State {
	s := profile.State{Local: n.id.ACEID(), Now: now}
	if msg, ok := n.profiles.Type(messageType); ok {
		s.Threads = Threads(tx, msg.Profile, s.Local)
	}
	if sender != nil {
		s.VerifySender = func(action string, sig wire.Signature, t int64, payload []byte) error {
			return sender.VerifySignature(action, sig, t, now, payload, fault.InvalidAuthorization)
		}
	}
	return s
}
