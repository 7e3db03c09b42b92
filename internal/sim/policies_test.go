package sim

import (
	"errors"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/store"
)

// policies are what the owner of a host may have laid down. Most have nothing.
var policies = []policy.Policy{
	{},
	{},
	{},
	{Rules: []policy.Rule{{Type: "ace:text:1", Do: policy.Ask}}},
	{Rules: []policy.Rule{{Do: policy.Ask}}, ApprovalTTL: 600},
	{Rules: []policy.Rule{{Type: "ace:commerce:*", Do: policy.Deny}, {Direction: policy.In, Type: "ace:text:1", Do: policy.Deny}}},
	{Rules: []policy.Rule{{Direction: policy.In, Type: "ace:commerce:*", Do: policy.Deny}, {Type: "ace:commerce:*", Do: policy.Ask}}},
	{Rules: []policy.Rule{{Direction: policy.In, Type: "ace:commerce:*", Do: policy.Allow}, {Direction: policy.In, Do: policy.Deny}}, ApprovalTTL: 60},
}

// owner is what the onlooker knows of the decisions of an owner in this step.
type owner struct {
	approved, denied map[string]bool // messages that were held
	released         map[received]bool
}

func newOwner() owner {
	return owner{approved: map[string]bool{}, denied: map[string]bool{}, released: map[received]bool{}}
}

// says is what the policy of a host says of a message: the first rule that is
// about it.
func (h *host) says(d policy.Direction, kind string) policy.Action {
	for _, r := range h.policy.Rules {
		start, all := strings.CutSuffix(r.Type, "*")
		about := r.Type == "" || kind == r.Type || all && strings.HasPrefix(kind, start)
		if (r.Direction == d || r.Direction == "" && d == policy.Out) && about {
			return r.Do
		}
	}
	return policy.Allow
}

// checkPolicy holds what came of a message that was to be sent against the policy.
func (h *host) checkPolicy(kind string, out core.Outgoing, err error) {
	var denied *policy.Denied
	does := policy.Allow
	switch {
	case errors.As(err, &denied):
		does = policy.Deny
	case err != nil:
		return
	case out.State == core.StatePendingApproval:
		does = policy.Ask
	}
	if want := h.says(policy.Out, kind); does != want {
		h.w.violate("what is sent goes by the policy", ofPolicies, "%s: %s of %s, and the policy says %s", h.name, does, kind, want)
	}
	h.w.count("policy: " + string(does))
}

// judgeHeld is the owner who decides about some of the messages that wait for it.
func (h *host) judgeHeld() {
	for _, e := range h.view.outbox {
		if e.State != store.PendingApproval || h.disk.dead || h.w.chance(0.3) {
			continue
		}
		if h.w.chance(0.3) {
			h.deny(e.MessageID)
		} else {
			h.approve(e.MessageID)
		}
	}
}

// approve lets a message go, and mostly makes the first attempt.
func (h *host) approve(id string) {
	h.owner.approved[id] = true
	out, err := h.endpoint.Approve(h.w.ctx, id)
	if err != nil {
		codes := append([]fault.Code{fault.InvalidArgument}, ofSend...) // its time is over, or another process has decided
		for _, code := range ofTrade {
			codes = append(codes, fault.Code(code))
		}
		h.expect("approve", err, append(codes, fault.InvalidBody)...) // a credential has ended
		return
	}
	h.w.count("policy: approved")
	h.read(func(tx *store.Tx) error { return h.checkPermitted(tx, out.To) })
	if h.w.chance(0.5) {
		_, err = h.endpoint.AttemptDue(h.w.ctx, id)
		if !errors.Is(err, delivery.ErrNotItsTurn) {
			h.expect("attempt", err, fault.UnknownPeer)
		}
	}
}

func (h *host) deny(id string) {
	h.owner.denied[id] = true
	_, err := h.endpoint.Deny(h.w.ctx, id)
	if err == nil {
		h.w.count("policy: denied by the owner")
	}
	h.expect("deny", err, fault.InvalidArgument)
}

// forceHeld tries what does not let a message go that is held.
func (h *host) forceHeld() {
	at := slices.IndexFunc(h.view.outbox, func(e store.OutboxEntry) bool { return e.State == store.PendingApproval })
	if at < 0 {
		return
	}
	id := h.view.outbox[at].MessageID
	_, err := h.endpoint.AttemptDue(h.w.ctx, id)
	if err == nil && !h.disk.dead {
		h.w.count("policy: an attempt of a held message")
	}
	if !errors.Is(err, delivery.ErrNotItsTurn) {
		h.expect("attempt", err, fault.InvalidArgument, fault.UnknownPeer)
	}
	h.expect("retry", h.retry())
}

// release puts some messages into the inbox that the policy has set aside.
func (h *host) release() {
	for _, m := range h.view.withheld {
		if h.disk.dead || h.w.chance(0.5) {
			continue
		}
		h.owner.released[received{m.Peer, m.MessageID}] = true
		_, err := h.endpoint.Release(h.w.ctx, m.Number)
		if err == nil {
			h.w.count("policy: released")
		}
		h.expect("release", err, fault.InvalidArgument)
	}
}

// outlastHeld lets the time of all that is held pass, so that each ends.
func (w *world) outlastHeld() {
	for _, h := range w.hosts {
		if !slices.ContainsFunc(h.view.outbox, func(e store.OutboxEntry) bool { return e.State == store.PendingApproval }) {
			continue
		}
		w.now += policy.DefaultApprovalTTL + 2*maxSkew // the clock may have been set back since
		h.expect("retry", h.retry())
		h.look()
		if slices.ContainsFunc(h.view.outbox, func(e store.OutboxEntry) bool { return e.State == store.PendingApproval }) {
			w.violate("a held message ends", ofPolicies, "%s: not all do", h.name)
		}
	}
}
