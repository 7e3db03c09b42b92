package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

type recoverOptions struct {
	renewOptions
	next           nextRoots
	fromRelay, kel string
	rehearsal      bool
}

func newIdentityRecoverCmd(a *app) *cobra.Command {
	var o recoverOptions
	c := &cobra.Command{
		Use:   "recover --next-root FILE [--from-relay URL | --kel FILE] [--rehearse] [flags]",
		Short: "Take an identity back with its next root",
		Long: `Take an identity back with its next root, after its root was stolen or the
machine was lost. The log is forked where the current root begins: whatever was
delegated since is revoked, by whomever it was, and peers adopt the new log in
place of the old. A new next root is written to a new file first.

With the identity still in this home, its folder is changed. On a machine that
has nothing but the next root, the log comes from a relay or a file, and a new
folder is made under the name of --as. What its store held is not in a relay:
contacts, messages and permits.

--rehearse proves that the next root opens and that the log commits to it, and
changes nothing.`,
		Example: `  ace identity recover --rehearse --next-root /media/a/alice.next-root
  ace --as alice identity recover --next-root alice.next-root --from-relay https://relay.example`,
	}
	o.renewOptions.add(c)
	o.next.add(c)
	f := c.Flags()
	f.StringVar(&o.fromRelay, "from-relay", "", "get the log from the relay at `URL` (default the home relay, if there is one)")
	f.StringVar(&o.kel, "kel", "", "read the log from `FILE`, alone or in a document that carries it")
	f.BoolVar(&o.rehearsal, "rehearse", false, "prove that the next root fits, and change nothing")
	return a.leaf(c, 0, 0, []any{renewedAnswer{}, rehearsalAnswer{}}, func(ctx context.Context, _ []string) error {
		return runIdentityRecover(ctx, a, o)
	})
}

// rehearsalAnswer is the answer of ace identity recover --rehearse.
type rehearsalAnswer struct {
	Fits     bool           `json:"fits"` // always; what does not fit is an error
	ACEID    string         `json:"ace_id"`
	Name     *string        `json:"name"` // null for an identity that is not in this home
	NextRoot string         `json:"next_root"`
	Sources  []string       `json:"sources"` // of the log
	KELSeq   int64          `json:"kel_seq"`
	Drops    []plannedEvent `json:"drops"`
	Budget   budgetLeft     `json:"budget_after"`
}

func (r rehearsalAnswer) text(p *page) {
	p.line("%s opens, and the log of %s commits to it", r.NextRoot, r.ACEID)
	p.row("log", "up to seq "+p.number(r.KELSeq), "from "+clean(strings.Join(r.Sources, ", "), false))
	for _, e := range r.Drops {
		p.row("a recovery would drop", "seq "+p.number(e.Seq), e.Type)
	}
	p.row("room left afterwards", r.Budget.String())
	p.line("nothing was changed")
}

// recovery is one recovery under way.
type recovery struct {
	*app
	recoverOptions
	aceID   string
	id      *identity // nil on a machine that has nothing but the next root
	relay   string    // where the log came from or is to be published, "" for none
	log     *kel.State
	sources []string
	own     core.OwnRecord
}

func runIdentityRecover(ctx context.Context, a *app, o recoverOptions) error {
	a.io.catchSignals()
	r := &recovery{app: a, recoverOptions: o}
	if err := r.find(); err != nil {
		return err
	}
	if err := r.gather(ctx); err != nil {
		return err
	}
	switch {
	case o.rehearsal:
		return r.rehearse(ctx)
	case r.id == nil:
		return r.recoverBare(ctx)
	}
	return r.recoverFolder(ctx)
}

// find tells whose next root it is, and whether that identity is in this home.
func (r *recovery) find() (err error) {
	if r.next.file == "" {
		return usagef("name the file of the next root with --next-root")
	}
	if r.fromRelay != "" && r.kel != "" {
		return usagef("--from-relay and --kel exclude each other")
	}
	r.aceID, _, err = keystore.NextRootInfo(r.next.file)
	if errors.Is(err, fault.IdentityUnavailable) {
		return hintf(err, "name the file of the next root with --next-root")
	}
	if err != nil {
		return err
	}
	names, err := keystore.List(r.identitiesDir())
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := r.openIdentity(name)
		if err != nil {
			return err
		}
		log, err := id.store.Log(r.io.Now())
		if err != nil {
			return err
		}
		if log.ACEID() == r.aceID {
			r.id = id
		} else if name == r.flags.as {
			return usagef("%s is the next root of %s, not of the identity %s", r.next.file, r.aceID, name)
		}
	}
	if r.id != nil && r.flags.as != "" && r.flags.as != r.id.name {
		return usagef("the identity of %s is in this home as %s: leave --as out", r.next.file, r.id.name)
	}
	return nil
}

// gather collects the log from every source that there is, and keeps the one to
// continue: any of the current root will do, because the recovery begins where
// that root began.
func (r *recovery) gather(ctx context.Context) error {
	if err := r.chooseRelay(); err != nil {
		return err
	}
	if r.id != nil {
		log, err := r.id.store.Log(r.io.Now())
		if err == nil {
			err = r.take(log, "this machine")
		}
		if err != nil {
			return err
		}
	}
	left, err := keystore.DestroyedLog(r.identitiesDir(), r.aceID, r.io.Now())
	if err == nil && left != nil {
		err = r.take(left, "what was left when it was destroyed here")
	}
	if err != nil {
		return err
	}
	if r.kel != "" {
		log, err := r.readLog(r.kel)
		if err == nil {
			err = r.take(log, r.kel)
		}
		if err != nil {
			return err
		}
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	if r.log == nil && r.relay != "" {
		return hintf(fault.New(fault.UnknownPeer, "the relay %s serves no log of %s", r.relay, r.aceID), "give a copy of the log with --kel, or another relay with --from-relay")
	}
	if r.log == nil {
		return usagef("there is no log of %s on this machine: name a relay with --from-relay or a file with --kel", r.aceID)
	}
	return nil
}

func (r *recovery) chooseRelay() (err error) {
	given := r.fromRelay
	if given == "" && r.id == nil {
		given = r.flags.relay
	}
	switch {
	case given != "":
		r.relay, err = r.relayURL(given, r.mayLoopback(given))
	case r.id != nil:
		r.relay, err = r.homeRelay(r.id)
	}
	return err
}

// mayLoopback reports whether a relay on this machine is taken: with the
// development relay it always is.
func (r *recovery) mayLoopback(given string) bool {
	return given == relayDev || r.id != nil && r.loopback(r.id) || r.flags.allowLoopback
}

// ask gets the log from the relay. A rehearsal that has one already asks a relay
// that is named, and no other.
func (r *recovery) ask(ctx context.Context) error {
	named := r.fromRelay != ""
	if r.relay == "" || !named && (r.noPublish || r.rehearsal && r.log != nil) {
		return nil
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	urls := wire.Production
	if r.mayLoopback(r.relay) || onLoopback(r.relay) {
		urls = wire.Development
	}
	var err error
	r.own, err = core.LookupOwn(ctx, r.relay, r.aceID, urls, r.io.Now())
	if err != nil && r.log != nil {
		return hintf(err, "the relay is asked for what has happened to the log; --no-publish goes on without it")
	}
	if err != nil || r.own.Log == nil {
		return err
	}
	if !r.rehearsal && !r.noPublish {
		if err := r.checkClock(ctx, r.relay, urls); err != nil {
			return err
		}
	}
	return r.take(r.own.Log, r.relay)
}

// take adds a log. Two that contradict each other are of use as long as they do
// so within the epoch of one root.
func (r *recovery) take(log *kel.State, source string) error {
	if log.ACEID() != r.aceID {
		return fault.New(fault.KELConflict, "%s has the log of %s, and the next root is that of %s", source, log.ACEID(), r.aceID)
	}
	r.sources = append(r.sources, source)
	_, after, err := kel.Reconcile(r.log, log)
	if err == nil {
		r.log = after
		return nil
	}
	if start := r.log.EpochStart(); start == log.EpochStart() && r.log.Events()[start].Hash == log.Events()[start].Hash {
		return nil
	}
	return hintf(err, "%s and %s have different roots, and one next root fits one of them at most: give the log that it belongs to with --kel, under another --home", r.sources[0], source)
}

func (r *recovery) drops() []plannedEvent {
	dropped := []plannedEvent{}
	for _, e := range r.log.Events()[r.log.EpochStart()+1:] {
		dropped = append(dropped, plannedEvent{e.Seq, e.Type})
	}
	return dropped
}

func (r *recovery) budget() budgetLeft { return newBudgetLeft(r.log.RecoveryBudget().After(2)) }

func (r *recovery) rehearse(ctx context.Context) error {
	var pass []byte
	if _, encrypted, err := keystore.NextRootInfo(r.next.file); err == nil && encrypted && !r.next.pass.given() && !r.interactive() {
		name := ""
		if r.id != nil {
			name = r.id.name
		}
		if pass, err = r.passphrase(ctx, name); err != nil {
			return err
		}
		defer clear(pass)
	}
	opened, err := r.next.open(ctx, r.app, r.log, pass)
	if err != nil {
		return err
	}
	opened.seed.Destroy()
	clear(opened.pass)
	answer := rehearsalAnswer{Fits: true, ACEID: r.aceID, NextRoot: r.next.file, Sources: r.sources, KELSeq: r.log.Seq(), Drops: r.drops(), Budget: r.budget()}
	if r.id != nil {
		answer.Name = &r.id.name
	}
	return r.print(answer)
}

// recoverFolder recovers an identity whose folder is here. Its store stays.
func (r *recovery) recoverFolder(ctx context.Context) error {
	agreed := func(context.Context, *session) error { return nil } // gather has asked the relay
	n, err := r.beginRenewalOf(ctx, r.id, r.renewOptions, agreed)
	if errors.Is(err, fault.IdentityUnavailable) {
		return withHint(err, "move the folder %s away to recover as on a machine that has nothing but the next root", r.id.store.Dir())
	}
	if err != nil {
		return err
	}
	defer clear(n.pass)
	rotation, s, err := n.prepare(ctx, &r.next, r.log, r.dryRun)
	if err != nil {
		return err
	}
	defer rotation.destroy()
	r.complete(&n.plan)
	if r.dryRun {
		return r.print(renewedAnswer{DryRun: true, renewalPlan: n.plan, ToCome: []string{}})
	}
	if err := n.confirm(ctx, "Take "+r.id.name+" back with its next root?"); err != nil {
		return err
	}
	if _, err := r.id.store.Recover(rotation.Rotation, r.log, r.io.Now()); err != nil {
		return err
	}
	r.next.warnOfRoots(r.app, s)
	r.id.settings = s
	return n.renewed(ctx, r.renewOptions, audit.KeyRecovered, core.PublishOptions{Force: true, Prekey: true})
}

// complete adds to a plan what a recovery does to the log.
func (r *recovery) complete(plan *renewalPlan) {
	start := r.log.EpochStart()
	plan.Events = []plannedEvent{{start + 1, kel.Rotation}, {start + 2, kel.Delegation}}
	plan.Dropped, plan.Budget = r.drops(), r.budget()
	plan.RelayChecked = r.own.Log != nil
}

// recoverBare recovers on a machine that has nothing but the next root.
func (r *recovery) recoverBare(ctx context.Context) error {
	name := r.flags.as
	if name == "" {
		name = "default"
	}
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := keystore.Open(r.identityDir(name)); !errors.Is(err, fault.IdentityUnavailable) {
		return usagef("the identity %q exists and is never replaced: name the one to be made with --as", name)
	}
	end, err := parseEnd(r.notAfter, r.io.Now())
	if err != nil {
		return err
	}
	n := &renewal{a: r.app, id: &identity{name: name, settings: r.settingsServed()}, plan: renewalPlan{Name: name, ACEID: r.aceID, KeyExpiresAt: end, ClosedPeers: []closedPeer{}}}
	r.complete(&n.plan)
	if !n.plan.RelayChecked {
		// A copy of the log says nothing of what was signed after it was made.
		r.warn("no relay has shown its log: if another copy of the identity has signed more, peers will believe one of the two at most; --from-relay asks one")
	}
	given, err := r.passphrase(ctx, name)
	if err != nil {
		return err
	}
	defer clear(given)
	n.pass = given
	n.log = r.log
	rotation, s, err := n.prepare(ctx, &r.next, r.log, r.dryRun)
	if err != nil {
		return err
	}
	defer rotation.destroy()
	if r.dryRun {
		return r.print(renewedAnswer{DryRun: true, renewalPlan: n.plan, ToCome: []string{}})
	}
	if err := n.confirm(ctx, "Take "+r.aceID+" back with its next root, as "+name+"?"); err != nil {
		return err
	}
	if n.pass == nil {
		if n.pass, err = r.newPassphrase(ctx, name); err != nil {
			return err
		}
		defer clear(n.pass)
	}
	text, err := s.encode()
	if err != nil {
		return err
	}
	now := r.io.Now()
	n.id.store, err = keystore.CreateRecovered(keystore.CreateOptions{
		Dir: r.identityDir(name), NextRootPath: rotation.NextRootPath, Files: map[string][]byte{settingsFile: text},
		Passphrase: n.pass, NextPassphrase: rotation.NextPassphrase, Lifetime: end - now, Command: r.command,
	}, r.log, rotation.NextRoot, now)
	if err != nil {
		return err
	}
	r.next.warnOfRoots(r.app, s)
	n.id.settings = s
	return n.renewed(ctx, r.renewOptions, audit.KeyRecovered, core.PublishOptions{Force: true, After: r.lastCard()})
}

// lastCard returns the issuedAt of the card that the relay served, 0 without one.
// The relay forgets it with the old log, and who has seen it takes none that is
// older (04#card-record).
func (r *recovery) lastCard() int64 {
	if r.own.Card == nil {
		return 0
	}
	return r.own.Card.IssuedAt
}

// settingsServed returns the settings of the folder to be made: what the
// identity's own card and descriptor say where the relay serves them, and
// otherwise the careful ones.
func (r *recovery) settingsServed() settings {
	s := settings{Relay: r.relay, Dev: onLoopback(r.relay), FollowDev: r.fromRelay == relayDev || r.fromRelay == "" && r.flags.relay == relayDev, Contact: descriptor.ContactClosed, Profiles: []string{profile.TextID}}
	if c := r.own.Card; c != nil {
		s.Contact, s.Listed = c.Contact, c.Listed
		// Accounts to be paid at are not taken over: whoever stole the signing key may
		// have written them (06#security-considerations).
		s.Description, s.Image, s.Tags = c.Card.Description, c.Card.Image, c.Card.Tags
		if c.Home == r.relay {
			s.Handle = c.Handle
		}
	}
	if d := r.own.Descriptor; d != nil {
		s.Profiles = []string{}
		for _, p := range d.Profiles {
			if _, err := official().named([]string{p.ID}); err == nil {
				s.Profiles = append(s.Profiles, p.ID)
			}
		}
	}
	return s
}
