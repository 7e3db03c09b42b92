package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newStatusCmd(a *app) *cobra.Command {
	var offline bool
	c := &cobra.Command{Use: "status [--offline]", Short: "Show whether you can be reached, and what waits"}
	c.Flags().BoolVar(&offline, "offline", false, "do not ask the relay")
	return a.leaf(c, 0, 0, []any{statusAnswer{}}, func(ctx context.Context, _ []string) error { return runStatus(ctx, a, offline) })
}

// statusAnswer is the answer of ace status. Reachable and registered are null
// when the relay was not asked.
type statusAnswer struct {
	Name                string   `json:"name"`
	ACEID               string   `json:"ace_id"`
	KELSeq              int64    `json:"kel_seq"`
	KeyExpiresAt        *int64   `json:"key_expires_at"`
	Relay               *string  `json:"relay"`
	Reachable           *bool    `json:"reachable"`
	Registered          *bool    `json:"registered"`
	DescriptorExpiresAt *int64   `json:"descriptor_expires_at"`
	Handle              *string  `json:"handle"`
	Contact             string   `json:"contact"`
	Dev                 bool     `json:"dev"`
	Unread              int      `json:"unread"`
	OutboxPending       int      `json:"outbox_pending"`
	ContactRequests     int      `json:"contact_requests"`
	ApprovalsPending    int      `json:"approvals_pending"`
	Quarantined         int      `json:"quarantined"`
	Warnings            []string `json:"warnings"`
}

func (r statusAnswer) text(p *page) {
	p.row("identity", r.Name)
	p.row("ace id", r.ACEID)
	p.row("handle", orDash(r.Handle))
	p.row("relay", orDash(r.Relay))
	if r.Reachable != nil {
		p.row("reachable", yesNo(*r.Reachable))
	}
	if r.Registered != nil && *r.Reachable {
		p.row("registered", yesNo(*r.Registered))
	}
	p.row("contact", r.Contact)
	if r.DescriptorExpiresAt != nil {
		p.row("descriptor until", p.time(*r.DescriptorExpiresAt))
	} else {
		p.row("descriptor", "never published")
	}
	if r.KeyExpiresAt != nil {
		p.row("signing key until", p.time(*r.KeyExpiresAt))
	}
	p.row("unread", fmt.Sprint(r.Unread))
	p.row("outbox pending", fmt.Sprint(r.OutboxPending))
	p.row("contact requests", fmt.Sprint(r.ContactRequests))
	if r.ApprovalsPending > 0 {
		p.row("waiting for approval", fmt.Sprint(r.ApprovalsPending))
	}
	if r.Quarantined > 0 {
		p.row("in quarantine", fmt.Sprint(r.Quarantined))
	}
	for _, w := range r.Warnings {
		p.row("warning", clean(w, false))
	}
}

func runStatus(ctx context.Context, a *app, offline bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	offline = offline || s.relay == ""
	st, err := s.Status(ctx, core.StatusOptions{Offline: offline})
	if err != nil {
		return err
	}
	answer := statusAnswer{
		Name: s.id.name, ACEID: st.ACEID, KELSeq: st.KELSeq, KeyExpiresAt: timeOrNull(st.UsableUntil), Relay: orNull(st.Relay),
		DescriptorExpiresAt: timeOrNull(st.DescriptorExpires), Handle: orNull(handleAddress(s.id.settings.Handle, s.relay)), Contact: st.Contact, Dev: s.id.settings.Dev,
		Unread: st.Unhandled, OutboxPending: st.OutboxPending, ContactRequests: st.Requests, ApprovalsPending: st.Held, Quarantined: st.Quarantined,
		Warnings: append(append([]string{}, st.Warnings...), s.warnings(ctx)...),
	}
	if !offline {
		answer.Reachable = &st.Reachable
		if st.Reachable {
			answer.Registered = &st.Registered
		}
	}
	return a.print(answer)
}

// warnings tells what is missing or wrong with the settings, the policy and the
// files of an identity. A next root that lies on the same machine is stolen together with
// the root it is to recover from (01#rotation-and-recovery).
func (s *session) warnings(ctx context.Context) (all []string) {
	if err := s.checkPolicy(ctx); err != nil {
		all = append(all, fmt.Sprintf("%v; nothing goes out or comes in until the rule is corrected", err))
	}
	if s.relay == "" {
		all = append(all, fmt.Sprintf("there is no relay yet: set one with ace --as %s publish --relay URL", s.id.name))
	}
	if at, pending, err := s.id.store.Restored(); err != nil || pending {
		all = append(all, fmt.Sprintf("restored from a backup of %s and not yet settled with its relay: ace --as %s publish", time.Unix(at, 0).UTC().Format(time.RFC3339), s.id.name))
	}
	path := s.id.settings.NextRoot
	if path == "" || s.id.settings.Dev {
		return all
	}
	if _, err := os.Stat(path); err == nil {
		all = append(all, fmt.Sprintf("the next root is still on this machine: move %s to a safe place", path))
	}
	return all
}
