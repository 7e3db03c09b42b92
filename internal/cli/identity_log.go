package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

func newIdentityLogCmd(a *app) *cobra.Command {
	var verify bool
	var since int64
	c := &cobra.Command{
		Use:   "log [NAME] [--verify] [--since SEQ]",
		Short: "Show the key event log of an identity",
		Long: `Show the key event log of an identity, without opening its keys, and how much
room is left in it. The log is verified before it is shown. --verify also asks
the home relay for its copy, and fails when that has other or more events.`,
	}
	c.Flags().BoolVar(&verify, "verify", false, "compare with the log that the home relay serves")
	c.Flags().Int64Var(&since, "since", 0, "show the events from this `SEQ` on")
	return a.leaf(c, 0, 1, []any{logAnswer{}}, func(ctx context.Context, args []string) error {
		return runIdentityLog(ctx, a, args, verify, since)
	})
}

// logAnswer is the answer of ace identity log. RelayCopy is same, older or none,
// null when the relay was not asked.
type logAnswer struct {
	Name      string      `json:"name"`
	ACEID     string      `json:"ace_id"`
	Usable    bool        `json:"usable"`
	Events    []loggedKey `json:"events"`
	Budget    budgetUsed  `json:"budget"`
	RelayCopy *string     `json:"relay_copy"`
}

// loggedKey is an event with its key by digest: a root's is the one that an
// earlier event committed to as next.
type loggedKey struct {
	Seq          int64   `json:"seq"`
	Type         string  `json:"type"`
	CreatedAt    int64   `json:"created_at"`
	KeyDigest    string  `json:"key_digest"`
	NextDigest   *string `json:"next_digest"`
	KeyExpiresAt *int64  `json:"key_expires_at"`
	Hash         string  `json:"hash"`
}

// budgetUsed is how much of a log's room is used. StrangerEvents is how long a
// log may be whose identity asks strangers for contact.
type budgetUsed struct {
	Events         int `json:"events_used"`
	MostEvents     int `json:"events_limit"`
	Bytes          int `json:"bytes_used"`
	MostBytes      int `json:"bytes_limit"`
	Appends        int `json:"appends_left"`
	StrangerEvents int `json:"stranger_events_limit"`
}

func (r logAnswer) text(p *page) {
	p.head("SEQ", "TYPE", "TIME", "KEY", "NEXT", "UNTIL")
	for _, e := range r.Events {
		p.row(p.number(e.Seq), e.Type, p.time(e.CreatedAt), p.digest(&e.KeyDigest), p.digest(e.NextDigest), p.timeOr(e.KeyExpiresAt))
	}
	b := r.Budget
	p.line("%d of %d events and %d of %d bytes used: room for %s", b.Events, b.MostEvents, b.Bytes, b.MostBytes, count(b.Appends, "more event"))
	if b.Events > b.StrangerEvents {
		p.line("strangers take no contact request with a log of more than %d events", b.StrangerEvents)
	}
	if r.RelayCopy != nil {
		p.line("%s", map[string]string{copySame: "the relay serves the same log", copyOlder: "the relay serves an older log", copyNone: "the relay serves no log"}[*r.RelayCopy])
	}
}

// digest shows a digest: whole in a pipe, shortened on a terminal.
func (p *page) digest(d *string) string {
	if d == nil {
		return "-"
	}
	if p.app.io.OutTTY {
		return (*d)[:16] + "…"
	}
	return *d
}

const (
	copySame  = "same"
	copyOlder = "older"
	copyNone  = "none"
)

func runIdentityLog(ctx context.Context, a *app, args []string, verify bool, since int64) error {
	if len(args) == 1 {
		a.flags.as = args[0]
	}
	id, err := a.identity()
	if err != nil {
		return err
	}
	log, err := id.store.Log(a.io.Now())
	if err != nil {
		return err
	}
	if since < 0 || since > log.Seq() {
		return usagef("--since %d: the log has the events 0 to %d", since, log.Seq())
	}
	answer := describeOwnLog(id.name, log, since, a.io.Now())
	if verify {
		relayCopy, err := a.compareWithRelay(ctx, id, log)
		if err != nil {
			return err
		}
		answer.RelayCopy = &relayCopy
	}
	return a.print(answer)
}

func describeOwnLog(name string, log *kel.State, since, now int64) logAnswer {
	left, used := log.Budget(), len(log.Raw())
	r := logAnswer{Name: name, ACEID: log.ACEID(), Usable: log.Usable(now), Events: []loggedKey{}, Budget: budgetUsed{
		Events: len(log.Events()), MostEvents: wire.MaxKELEvents, Bytes: used, MostBytes: used + left.Bytes,
		Appends: left.Appends(), StrangerEvents: wire.MaxStrangerKELEvents,
	}}
	for _, e := range log.Events()[since:] {
		r.Events = append(r.Events, loggedKey{
			Seq: e.Seq, Type: e.Type, CreatedAt: e.TS, KeyDigest: kel.Commitment(wire.SchemeMLDSA65, e.Key),
			NextDigest: orNull(e.Next), KeyExpiresAt: timeOrNull(e.NotAfter), Hash: e.Hash,
		})
	}
	return r
}

// compareWithRelay says how the home relay's copy of the log stands to this one.
// Code: kel_conflict when it has other or more events.
func (a *app) compareWithRelay(ctx context.Context, id *identity, log *kel.State) (string, error) {
	relay, err := a.homeRelay(id)
	if err != nil {
		return "", err
	}
	if relay == "" {
		return "", usagef("--verify: the identity %q has no relay to ask", id.name)
	}
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	own, err := core.LookupOwn(ctx, relay, log.ACEID(), a.urls(id), a.io.Now())
	if err != nil {
		return "", err
	}
	if own.Log == nil {
		return copyNone, nil
	}
	outcome, _, err := kel.Reconcile(log, own.Log)
	switch {
	case err != nil || outcome != kel.Unchanged:
		return "", notNewest(relay, log, own.Log, outcome, err)
	case own.Log.Seq() < log.Seq():
		return copyOlder, nil
	}
	return copySame, nil
}
