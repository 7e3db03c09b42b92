package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/wire"
)

func newWhyCmd(a *app) *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:               "why PEER [--offline]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Tell why you can or cannot reach a peer, and the peer you",
		Long: `Tell why you can or cannot reach a peer, and the peer you, from what is known
here, your policy included. The peer is looked up first, which pins it. What the
peer has decided about you, or lost, only its own machine knows.`,
	}
	c.Flags().BoolVar(&offline, "offline", false, "do not look the peer up")
	return a.leaf(c, 1, 1, []any{whyAnswer{}}, func(ctx context.Context, args []string) error {
		return runWhy(ctx, a, args[0], offline)
	})
}

// whyAnswer tells what decides whether messages get through. State is null for a
// stranger.
type whyAnswer struct {
	ACEID      string      `json:"ace_id"`
	PeerName   *string     `json:"peer_name"`
	State      *string     `json:"state"`
	CanSend    bool        `json:"can_send"`
	CanReceive bool        `json:"can_receive"`
	Send       []whyReason `json:"send"`
	Receive    []whyReason `json:"receive"`
}

// whyReason is one thing that decides, or helps to. Stops says that no message
// gets through because of it.
type whyReason struct {
	Code   string  `json:"code"`
	Stops  bool    `json:"stops"`
	At     *int64  `json:"at"`
	Count  *int    `json:"count"`
	Detail *string `json:"detail"`
	// Rule is a rule of the policy, from 1, that decides about Types of messages.
	Rule  *int     `json:"rule"`
	Types []string `json:"types"`
	// Untrusted has the thread that a reason is about, null for none.
	Untrusted whyUntrusted `json:"untrusted"`
}

type whyUntrusted struct {
	ThreadID *string `json:"thread_id"`
}

func newWhyAnswer(y core.Why) whyAnswer {
	return whyAnswer{
		ACEID: y.ACEID, PeerName: orNull(y.Name), State: orNull(y.State), CanSend: y.CanSend, CanReceive: y.CanReceive,
		Send: newWhyReasons(y.Send), Receive: newWhyReasons(y.Receive),
	}
}

func newWhyReasons(reasons []core.Reason) []whyReason {
	list := []whyReason{}
	for _, r := range reasons {
		w := whyReason{Code: string(r.Code), Stops: r.Stops, At: timeOrNull(r.At), Detail: orNull(r.Detail), Untrusted: whyUntrusted{orNull(r.Thread)}}
		if r.Count > 0 {
			w.Count = &r.Count
		}
		if w.Types = append([]string{}, r.Types...); r.Rule > 0 {
			w.Rule = &r.Rule
		}
		list = append(list, w)
	}
	return list
}

func (r whyAnswer) text(p *page) {
	peer := p.peer(r.ACEID, r.PeerName)
	p.line("you to %s: %s", peer, yesNo(r.CanSend))
	for _, reason := range r.Send {
		p.line("  %s", r.sentence(p, peer, reason))
	}
	p.line("%s to you: %s", peer, yesNo(r.CanReceive))
	for _, reason := range r.Receive {
		p.line("  %s", r.sentence(p, peer, reason))
	}
}

// mayAsk reports whether a contact request, which carries a permit, would get to the
// peer: with a permit held from it, or as that of a stranger.
func (r whyAnswer) mayAsk() bool {
	return !slices.ContainsFunc(r.Send, func(w whyReason) bool {
		return w.Code == string(core.WhyCardClosed) || w.Code == string(core.WhyCardUnknown)
	})
}

// sentence is one plain sentence for each reason.
func (r whyAnswer) sentence(p *page, peer string, w whyReason) string {
	at, detail := p.timeOr(w.At), clean(orDash(w.Detail), false)
	switch core.ReasonCode(w.Code) {
	case core.WhyOwnKeyEnded:
		return "Your identity has no signing key in force."
	case core.WhyBlocked:
		return fmt.Sprintf("You have blocked %s, so what it sends is dropped, receipts too: ace contact unblock lifts that.", peer)
	case core.WhyLookupFailed:
		return fmt.Sprintf("Looking %s up failed just now (%s).", peer, detail)
	case core.WhyNeverLookedUp:
		return fmt.Sprintf("No descriptor of %s is known: ace lookup fetches it.", peer)
	case core.WhyPeerKeyEnded:
		return fmt.Sprintf("%s has no signing key in force, as far as is known here.", peer)
	case core.WhyDescriptorStale:
		return fmt.Sprintf("The descriptor held of %s has ended or is outdated; an attempt needs a fresh one.", peer)
	case core.WhyPermitHeld:
		return fmt.Sprintf("You hold a permit of %s that ends %s.", peer, at)
	case core.WhyPermitMissing:
		return fmt.Sprintf("You hold no permit of %s.", peer)
	case core.WhyPermitEnded:
		return fmt.Sprintf("The permit you hold of %s ended %s.", peer, at)
	case core.WhyPermitVoid:
		return fmt.Sprintf("The permit you hold of %s is void: it was signed with another key than the one in force. If it still holds you as admitted, its next upkeep sends another, and ace pull fetches that.", peer)
	case core.WhyRequestSent:
		return fmt.Sprintf("Your contact request waits for an answer until %s: ace pull fetches it.", at)
	case core.WhyRequestUnsent:
		return "Your contact request was taken by no relay and is not sent again by itself: ace connect asks again."
	case core.WhyLogTooLong:
		return fmt.Sprintf("Your log has %s, and of a stranger a peer takes at most %d: unless %s holds you as admitted, only its invitation lets you ask.", count(*w.Count, "event"), wire.MaxStrangerKELEvents, peer)
	case core.WhyCardOpen:
		return fmt.Sprintf("%s takes contact requests: ace connect sends one.", peer)
	case core.WhyCardClosed:
		return fmt.Sprintf("%s takes no contact requests from strangers: ask for an invitation.", peer)
	case core.WhyCardUnknown:
		return fmt.Sprintf("No card of %s is known here, and without one it takes no contact requests: ask for an invitation.", peer)
	case core.WhyMessagesWaiting:
		return fmt.Sprintf("%s for %s without an outcome: ace outbox list shows them.", count(*w.Count, "message"), peer)
	case core.WhyAttemptFailed:
		return fmt.Sprintf("The last attempt to deliver one failed with %s.", detail)
	case core.WhyThreadBusy:
		return fmt.Sprintf("The thread %s is busy until the receipt of your message on it comes: meanwhile it takes no other from either of you.", clean(orDash(w.Untrusted.ThreadID), false))
	case core.WhyNotPublished:
		return "No descriptor of yours that is valid stands at the relay: ace publish."
	case core.WhyBlockUnconfirmed:
		return fmt.Sprintf("The relay has not confirmed your last decision to block or unblock %s: ace maintain tells it.", peer)
	case core.WhyBlockSuperseded:
		return fmt.Sprintf("The relay holds a later decision about %s than you made here: decide again to outrank it.", peer)
	case core.WhyPermitIssued:
		return fmt.Sprintf("You issued %s a permit that ends %s.", peer, at)
	case core.WhyPermitDue:
		if !r.mayAsk() {
			// Two closed peers that replaced their keys at once (06#security-considerations).
			return fmt.Sprintf("%s has no permit of yours that is valid, and none can be sent: ace contact invite makes one that you hand over.", peer)
		}
		if r.State != nil && *r.State == string(admission.Admitted) {
			return fmt.Sprintf("%s has no permit of yours that is valid: ace permit renew sends one.", peer)
		}
		return fmt.Sprintf("%s has no permit of yours that is valid: ace connect sends one with another request.", peer)
	case core.WhyPermitOutstanding:
		return fmt.Sprintf("%s still holds a permit of yours until %s, which admits it with its next retry.", peer, at)
	case core.WhyRequestWaiting:
		return fmt.Sprintf("%s asks for contact until %s: ace contact accept or reject decides.", peer, at)
	case core.WhyOpenToRequests:
		return fmt.Sprintf("%s is a stranger and may only ask for contact.", peer)
	case core.WhyPolicyAsks:
		return fmt.Sprintf("Rule %d of your policy holds what you send of %s until you approve it: ace outbox list shows what waits.", *w.Rule, w.types())
	case core.WhyPolicyDenies:
		return fmt.Sprintf("Rule %d of your policy denies %s: none leaves, and one that comes is set aside in quarantine.", *w.Rule, w.types())
	case core.WhyPolicyUnclear:
		return "Your policy has a rule about a peer whom nobody knows here, and stops until it is corrected: ace doctor shows which."
	case core.WhyClosedToStrangers:
		return fmt.Sprintf("%s is a stranger, and you are closed to strangers: ace contact invite lets it ask.", peer)
	}
	return w.Code
}

func (w whyReason) types() string { return clean(strings.Join(w.Types, ", "), false) }

func runWhy(ctx context.Context, a *app, typed string, offline bool) error {
	return a.withPeer(ctx, a.openStore, (*session).requester, typed, func(ctx context.Context, s *session, peer string) error {
		y, err := s.Why(ctx, peer, core.WhyOptions{Offline: offline || s.relay == ""})
		if err != nil {
			return err
		}
		return a.print(newWhyAnswer(y))
	})
}
