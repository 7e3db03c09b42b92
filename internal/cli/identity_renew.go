package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/internal/span"
)

// renewOptions are those of every command that replaces keys.
type renewOptions struct {
	notAfter          string
	dryRun, noPublish bool
}

func (o *renewOptions) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.notAfter, "not-after", "180d", "when the new signing key ends: a `TIME` from now, as in 90d, or a date; at most 366d")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would change, and change nothing")
	f.BoolVar(&o.noPublish, "no-publish", false, "do not contact the relay, neither before nor after")
}

// renewal is one change of an identity's keys under way.
type renewal struct {
	a    *app
	id   *identity
	pass []byte // opens the keys of the folder, nil for none
	log  *kel.State
	plan renewalPlan
}

// renewalPlan is what a change of keys does, or has done. Events are those that
// are appended; Dropped are those of the log before that they supersede.
type renewalPlan struct {
	Name         string         `json:"name"`
	ACEID        string         `json:"ace_id"`
	Events       []plannedEvent `json:"events"`
	Dropped      []plannedEvent `json:"dropped"`
	KeyExpiresAt int64          `json:"key_expires_at"`
	// NextRoot is the file of the new next root, null when the root stays.
	NextRoot *string    `json:"next_root"`
	Budget   budgetLeft `json:"budget_after"`
	// RelayChecked says that the home relay was asked for a newer log.
	RelayChecked  bool         `json:"relay_checked"`
	PermitsVoided int          `json:"permits_voided"`
	Refreshes     int          `json:"refreshes"`
	ClosedPeers   []closedPeer `json:"closed_peers"`
}

type plannedEvent struct {
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
}

// budgetLeft is the room of a log. Appends are certain to fit; Emergency says
// that no more are left than a rot and its dlg take, or fewer.
type budgetLeft struct {
	Events    int  `json:"events_left"`
	Bytes     int  `json:"bytes_left"`
	Appends   int  `json:"appends_left"`
	Emergency bool `json:"emergency"`
}

// closedPeer is an admitted peer that cannot be reached again if it replaces
// its signing key at the same time.
type closedPeer struct {
	ACEID string  `json:"ace_id"`
	Name  *string `json:"name"`
	Known bool    `json:"known"` // its card says closed; else no card is held
}

// renewedAnswer is the answer of rotate, delegate and recover.
type renewedAnswer struct {
	DryRun bool `json:"dry_run"`
	renewalPlan
	Published *publishedAnswer `json:"published"`
	// ToCome says what is not done yet.
	ToCome []string `json:"to_come"`
}

func (r renewedAnswer) text(p *page) {
	r.renewalPlan.text(p)
	if r.DryRun {
		p.line("nothing was changed")
		return
	}
	if r.Published != nil {
		r.Published.text(p)
	}
	for _, line := range r.ToCome {
		p.line("to come: %s", line)
	}
}

func (r renewalPlan) text(p *page) {
	p.row("identity", r.Name, r.ACEID)
	for _, e := range r.Dropped {
		p.row("drops", fmt.Sprintf("seq %d", e.Seq), e.Type)
	}
	for _, e := range r.Events {
		p.row("appends", fmt.Sprintf("seq %d", e.Seq), e.Type)
	}
	p.row("signing key until", p.time(r.KeyExpiresAt))
	if r.NextRoot != nil {
		p.row("next root", *r.NextRoot)
	}
	p.row("room left", r.Budget.String())
	if n := wire.MaxKELEvents - r.Budget.Events; n > wire.MaxStrangerKELEvents {
		p.row("strangers", fmt.Sprintf("take no contact request with a log of %d events, more than %d", n, wire.MaxStrangerKELEvents))
	}
	p.row("relay", map[bool]string{true: "asked for a newer log", false: "not asked for a newer log"}[r.RelayChecked])
	p.row("permits voided", strconv.Itoa(r.PermitsVoided))
	for _, peer := range r.ClosedPeers {
		why := "is closed"
		if !peer.Known {
			why = "has no known card, so may be closed"
		}
		p.row("at risk", p.peer(peer.ACEID, peer.Name), why+": it must not replace its signing key at the same time")
	}
}

func (b budgetLeft) String() string {
	text := fmt.Sprintf("%s, %s", count(b.Appends, "event"), count(b.Bytes, "byte"))
	if b.Emergency {
		text += " (what is kept for an emergency)"
	}
	return text
}

func newBudgetLeft(b kel.Budget) budgetLeft {
	return budgetLeft{Events: b.Events, Bytes: b.Bytes, Appends: b.Appends(), Emergency: b.Emergency()}
}

// beginRenewal opens the identity to act as, looks whether its log is the
// newest, and what a new signing key changes.
func (a *app) beginRenewal(ctx context.Context, o renewOptions) (*renewal, error) {
	a.io.catchSignals()
	id, err := a.identity()
	if err != nil {
		return nil, err
	}
	return a.beginRenewalOf(ctx, id, o, a.checkNewest)
}

func (a *app) beginRenewalOf(ctx context.Context, id *identity, o renewOptions, check func(context.Context, *session) error) (*renewal, error) {
	end, err := parseEnd(o.notAfter, a.io.Now())
	if err != nil {
		return nil, err
	}
	r := &renewal{a: a, id: id, plan: renewalPlan{Name: id.name, KeyExpiresAt: end}}
	encrypted, err := id.store.Encrypted()
	if err != nil {
		return nil, err
	}
	if encrypted {
		if r.pass, err = a.unlockPassphrase(ctx, id.name); err != nil {
			return nil, err
		}
	}
	s, err := a.openSession(ctx, id, r.pass)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.log = s.unlocked.Identity.State()
	r.plan.ACEID = r.log.ACEID()
	if ahead := r.log.LastTS() - a.io.Now(); ahead > 0 {
		a.warn("the clock is %d s behind the last event of the identity: the new event is dated like it", ahead)
	}
	if !o.noPublish && s.relay != "" {
		if err := check(ctx, s); err != nil {
			return nil, err
		}
		r.plan.RelayChecked = true
	}
	return r, r.addEffects(ctx, s)
}

func (r *renewal) addEffects(ctx context.Context, s *session) error {
	effects, err := s.NewKeyEffects(ctx)
	if err != nil {
		return err
	}
	r.plan.PermitsVoided, r.plan.Refreshes = effects.Permits, effects.Refreshes
	r.plan.ClosedPeers = []closedPeer{}
	for _, peer := range effects.Closed {
		r.plan.ClosedPeers = append(r.plan.ClosedPeers, closedPeer{peer.ACEID, orNull(peer.Name), peer.Known})
	}
	return nil
}

// append notes the events to be appended after the given seq, and the room that
// they leave.
func (r *renewal) append(after int64, budget kel.Budget, types ...string) {
	for i, t := range types {
		r.plan.Events = append(r.plan.Events, plannedEvent{after + int64(i) + 1, t})
	}
	r.plan.Dropped = []plannedEvent{}
	for _, e := range r.log.Events()[after+1:] {
		r.plan.Dropped = append(r.plan.Dropped, plannedEvent{e.Seq, e.Type})
	}
	r.plan.Budget = newBudgetLeft(budget.After(len(types)))
}

// checkNewest refuses to append to a log that is not the newest: the home relay
// may hold events that another copy of the identity, or a thief of its root,
// has signed, and no seq may be signed twice (01#rotation-and-recovery).
func (a *app) checkNewest(ctx context.Context, s *session) error {
	served, err := a.servedLog(ctx, s)
	if err != nil {
		return err
	}
	if served == nil {
		return a.checkKey(ctx, s)
	}
	log := s.unlocked.Identity.State()
	outcome, _, err := kel.Reconcile(log, served)
	if err == nil && outcome == kel.Unchanged {
		return a.checkKey(ctx, s)
	}
	return notNewest(s.relay, log, served, outcome, err)
}

// checkKey is checkNewest for a relay that may hold a newer log than it serves. It
// refuses a clock that the relay contradicts: an event dated ahead holds for nobody
// until its time has come (01#verifier-rules rule 1), and none goes before it.
func (a *app) checkKey(ctx context.Context, s *session) error {
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	if !s.unlocked.Identity.State().Usable(a.io.Now()) {
		return a.checkClock(ctx, s.relay, a.urls(s.id)) // it signs no request either
	}
	err := s.KeyAtRelay(ctx)
	switch {
	case errors.Is(err, fault.KELConflict):
		return hintf(err, newestHint)
	case errors.Is(err, fault.IdentityUnavailable):
		return hintf(err, clockHint)
	case err != nil:
		return hintf(err, relayFirstHint)
	}
	return nil
}

// checkClock is what checkKey says of the clock, for an identity that can sign no
// request: its key may have ended only by a clock that is wrong.
func (a *app) checkClock(ctx context.Context, relay string, urls wire.URLPolicy) error {
	health, _ := core.AskHealth(ctx, relay, urls) // the date is valid also beside an error
	ahead := a.io.Now() - health.Date
	if health.Date == 0 || ahead <= wire.TimestampWindowSeconds {
		return nil
	}
	return hintf(fault.New(fault.IdentityUnavailable, "the clock of this machine is %d s ahead of that of the relay %s", ahead, relay), clockHint)
}

// The hints for what a relay says, or does not, before an event is signed.
const (
	clockHint      = "set the clock: an event dated ahead of the time holds for nobody until then; where it is the relay's that is wrong, --no-publish does not ask it"
	relayFirstHint = "the relay is asked for a newer log first; --no-publish goes on without it"
)

const newestHint = "use the copy of the identity that made it; if nobody of yours did, take it back with ace identity recover --next-root FILE"

// notNewest tells that a relay serves a log that goes beyond the one here, or
// contradicts it: outcome and err are what reconciling it with ours has given.
// Code: kel_conflict.
func notNewest(relay string, log, served *kel.State, outcome kel.Outcome, err error) error {
	what := fmt.Sprintf("has events up to seq %d, this copy only up to seq %d", served.Seq(), log.Seq())
	switch {
	case err != nil:
		what = fmt.Sprintf("has another log: %v", err)
	case outcome == kel.Recovered:
		what = "has a log that was recovered with the next root, and this copy of it is from before"
	}
	return hintf(fault.New(fault.KELConflict, "the relay %s %s", relay, what), newestHint)
}

// servedLog returns the log that the home relay serves, nil for none.
func (a *app) servedLog(ctx context.Context, s *session) (*kel.State, error) {
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	own, err := core.LookupOwn(ctx, s.relay, s.ACEID(), a.urls(s.id), a.io.Now())
	if err != nil {
		return nil, hintf(err, relayFirstHint)
	}
	return own.Log, nil
}

func (a *app) urls(id *identity) wire.URLPolicy {
	if a.loopback(id) {
		return wire.Development
	}
	return wire.Production
}

// confirm asks with the plan in sight.
func (r *renewal) confirm(ctx context.Context, question string) error {
	if !r.a.flags.yes && r.a.interactive() {
		columns := tabwriter.NewWriter(r.a.io.Err, 0, 8, 2, ' ', 0)
		r.plan.text(&page{w: columns, app: r.a})
		if err := columns.Flush(); err != nil {
			return err
		}
	}
	return r.a.confirm(ctx, question)
}

// noteKey notes the change in the audit log, and that it has made the permits void
// that were issued under the last key.
func (r *renewal) noteKey(event audit.Event) {
	notes := []core.Note{{Event: event, KELSeq: r.plan.Events[len(r.plan.Events)-1].Seq}}
	if r.plan.PermitsVoided > 0 {
		notes = append(notes, core.Note{Event: audit.PermitVoided, Count: int64(r.plan.PermitsVoided)})
	}
	r.a.note(r.id, notes...)
}

// renewed answers for a change that is durable: it publishes the new log, and
// says what is still to come. A change whose publication fails stands.
func (r *renewal) renewed(ctx context.Context, o renewOptions, event audit.Event, publish core.PublishOptions) error {
	r.noteKey(event)
	failpoint.Here(failpoint.ChangeMade)
	answer := renewedAnswer{renewalPlan: r.plan, ToCome: r.toCome(o)}
	var err error
	if !o.noPublish {
		answer.Published, err = r.publish(ctx, publish)
	}
	if err != nil {
		answer.ToCome = append([]string{"the publication, which failed: ace --as " + r.id.name + " publish"}, answer.ToCome...)
	}
	return errors.Join(r.a.print(answer), withHint(err, "the new keys are in force here and kept; publish them with ace --as %s publish", r.id.name))
}

func (r *renewal) publish(ctx context.Context, o core.PublishOptions) (*publishedAnswer, error) {
	s, err := r.a.openSession(ctx, r.id, r.pass)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.relay == "" {
		return nil, nil
	}
	o.Unasked = true
	answer, err := r.a.publishWith(ctx, s, o)
	if errors.Is(err, core.ErrWithdrawn) {
		r.a.warn("%s is unregistered: nothing is published before ace --as %s publish", r.id.name, r.id.name)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &answer, nil
}

func (r *renewal) toCome(o renewOptions) []string {
	all := []string{}
	if o.noPublish {
		all = append(all, "the publication: until ace --as "+r.id.name+" publish, the relay refuses this identity")
	}
	if last := r.plan.Events[len(r.plan.Events)-1].Seq; r.plan.droppedKey() >= last {
		// Their receivers refresh a pin for a greater seq alone
		// (06#receive-pipeline step 3).
		all = append(all, fmt.Sprintf("the peers' own refresh: one that has pinned a dropped key of seq %d or later drops what you send, permits too, until it runs ace lookup or its copy of the descriptor ends", last))
	}
	if r.plan.Refreshes > 0 {
		all = append(all, fmt.Sprintf("fresh permits for %s, at the next upkeep", count(r.plan.Refreshes, "admitted peer")))
	}
	return all
}

// droppedKey is the seq of the last signing key that the change drops, -1 for none.
func (p renewalPlan) droppedKey() int64 {
	for _, e := range slices.Backward(p.Dropped) {
		if e.Type == kel.Delegation {
			return e.Seq
		}
	}
	return -1
}

// parseEnd reads when a key ends: so long from now, or a date.
func parseEnd(text string, now int64) (int64, error) {
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		end, err = time.Parse(time.DateOnly, text)
	}
	at := end.Unix()
	if err != nil {
		d, err := span.Parse(text)
		if err != nil {
			return 0, usagef("--not-after %q is neither a time from now, as in 90d or 12h, nor a date, as in 2027-01-31", text)
		}
		at = now + int64(d/time.Second)
	}
	if at <= now || at > now+wire.MaxSigningKeyLifetime {
		return 0, usagef("--not-after %s: a signing key ends in the future, and within %d days", text, wire.MaxSigningKeyLifetime/86400)
	}
	return at, nil
}
