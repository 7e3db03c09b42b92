package sim

import (
	"fmt"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/store"
)

// ofPolicies is where it is said what a policy does.
const ofPolicies = "ace help policy"

var policyRules = []rule{
	{"nothing of a held message leaves", ofPolicies, heldStays},
	{"a held message goes on by its owner or by time", ofPolicies, heldIsDecided},
	{"a message that comes goes where the policy says", ofPolicies, deniedIsSetAside},
	{"what is set aside stays until it is released", ofPolicies, withheldStays},
}

// unsent reports whether an entry is held, or has ended without having left.
func unsent(e store.OutboxEntry) bool {
	return e.State == store.PendingApproval || e.Reason == delivery.ReasonDenied || e.Reason == delivery.ReasonApprovalExpired
}

func heldStays(h *host, _, after *view) string {
	for _, e := range after.outbox {
		if unsent(e) && (e.Attempts > 0 || len(h.w.packets[e.MessageID]) > 0 && !h.restored) {
			return fmt.Sprintf("%s is %s, and was sent", e.MessageID, e.State)
		}
	}
	return ""
}

func heldIsDecided(h *host, before, after *view) string {
	for _, e := range after.outbox {
		asked := h.says(policy.Out, e.Type) == policy.Ask
		was := before.entry(e.MessageID)
		held := was != nil && was.State == store.PendingApproval || was == nil && asked
		approved := h.owner.approved[e.MessageID]
		denied := h.owner.denied[e.MessageID] || h.forgot[e.Peer] // what was held for a contact that has ended
		switch {
		case was == nil && !asked && e.HeldAt > 0:
			return fmt.Sprintf("%s is held, and the policy does not say so", e.MessageID)
		case !held || e.State == store.PendingApproval:
		case e.State == store.Rejected && e.Reason == delivery.ReasonDenied && denied:
		case e.State == store.Rejected && e.Reason == delivery.ReasonApprovalExpired && h.clock() >= e.HeldUntil:
		case !approved || e.Reason == delivery.ReasonDenied || e.Reason == delivery.ReasonApprovalExpired:
			return fmt.Sprintf("%s was held and is %s (%s), approved %t, denied %t", e.MessageID, e.State, e.Reason, approved, denied)
		}
	}
	return ""
}

// deniedIsSetAside: also that what is set aside was sent to this host as it is.
func deniedIsSetAside(h *host, before, after *view) string {
	for _, m := range after.messages {
		key := received{m.Peer, m.MessageID}
		if h.says(policy.In, m.Type) == policy.Deny && !before.message(m.Peer, m.MessageID) && !h.owner.released[key] {
			return fmt.Sprintf("%s is shown", m.MessageID)
		}
	}
	for _, m := range after.withheld {
		sent := h.w.sent.byID[m.MessageID]
		switch {
		case h.says(policy.In, m.Type) != policy.Deny:
			return fmt.Sprintf("%s is set aside", m.MessageID)
		case sent == nil || sent.to != h.id.ACEID() || sent.from.id.ACEID() != m.Peer || sent.body != string(m.Body):
			return fmt.Sprintf("%s is another message than was sent", m.MessageID)
		case h.told[received{m.Peer, m.MessageID}] > 0 || after.message(m.Peer, m.MessageID):
			return fmt.Sprintf("%s is set aside and shown", m.MessageID)
		}
		sent.stored = true
	}
	return ""
}

func withheldStays(h *host, before, after *view) string {
	for _, m := range before.withheld {
		key := received{m.Peer, m.MessageID}
		if !after.isWithheld(m.Peer, m.MessageID) && !(h.owner.released[key] && after.message(m.Peer, m.MessageID)) {
			return fmt.Sprintf("%s is gone", m.MessageID)
		}
	}
	return ""
}
