package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

type findOptions struct {
	core.FindOptions
	all, failEmpty bool
}

// The most entries of a directory that ace find reads.
const (
	findLimit    = wire.MaxInboxPage
	findAllLimit = 10_000
)

func newFindCmd(a *app) *cobra.Command {
	var o findOptions
	c := &cobra.Command{
		Use:   "find [--tag TAG] [--profile ID] [--all] [flags]",
		Short: "Find identities in the relay's directory",
		Long: `List the identities that let themselves be found in the directory of the relay,
with what they say of themselves. Each card is verified; nobody but its author
vouches for what is in it. That somebody enables a profile is known for sure after
ace lookup alone.

--all reads on to the end of the directory, or to 10000 entries without a larger
--limit; --json then answers with a line for each page.`,
		Example: `  ace find --tag translation
  ace find --all --json | jq -r '.cards[].ace_id'`,
	}
	f := c.Flags()
	f.StringVar(&o.Tag, "tag", "", "only cards with this `TAG`")
	f.StringVar(&o.Profile, "profile", "", "only those whose relay says that they enable this `PROFILE`")
	a.completeOption(c, "profile", profileValues)
	f.IntVar(&o.Limit, "limit", 0, "read at most `N` entries (default 100, with --all 10000)")
	f.StringVar(&o.Cursor, "cursor", "", "go on at the `CURSOR` of an earlier answer")
	f.BoolVar(&o.all, "all", false, "read all pages")
	f.BoolVar(&o.failEmpty, "fail-empty", false, "exit with 3 when nothing is found")
	return a.leaf(c, 0, 0, []any{findAnswer{}}, func(ctx context.Context, _ []string) error { return runFind(ctx, a, o) })
}

// findAnswer is a part of a directory. Cursor goes on behind it and is null at the
// end.
type findAnswer struct {
	Relay   string        `json:"relay"`
	Cards   []foundAnswer `json:"cards"`
	Refused []report      `json:"refused"` // entries that are left out
	Cursor  *string       `json:"cursor"`
}

type foundAnswer struct {
	ACEID    string  `json:"ace_id"`
	PeerName *string `json:"peer_name"`
	cardAnswer
}

func (r findAnswer) text(p *page) {
	p.head("ACE ID", "NAME", "CONTACT", "TAGS", "SAYS OF ITSELF")
	for _, c := range r.Cards {
		u := c.Untrusted
		name := p.peer(c.ACEID, c.PeerName)
		if c.PeerName == nil && c.Handle != nil {
			name = *c.Handle
		}
		p.row(p.id(c.ACEID), name, c.Contact, clean(strings.Join(u.Tags, " "), false), p.quote(u.Description))
	}
}

func (a *app) newFindAnswer(relay string, page core.FoundPage) findAnswer {
	r := findAnswer{Relay: relay, Cards: []foundAnswer{}, Refused: []report{}, Cursor: orNull(page.Cursor)}
	for _, c := range page.Cards {
		r.Cards = append(r.Cards, foundAnswer{c.ACEID, orNull(c.Name), describeCard(c.CardBundle)})
	}
	for _, err := range page.Refused {
		r.Refused = append(r.Refused, newReport(err, a.command))
	}
	return r
}

// join appends a page to an answer.
func (r *findAnswer) join(page findAnswer) {
	r.Cards = append(r.Cards, page.Cards...)
	r.Refused = append(r.Refused, page.Refused...)
	r.Cursor = page.Cursor
}

func runFind(ctx context.Context, a *app, o findOptions) error {
	if err := o.complete(); err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.findDeadline(ctx, o.all)
	defer cancel()
	answer, read := a.newFindAnswer(s.relay, core.FoundPage{}), 0
	err = s.Find(ctx, o.FindOptions, func(page core.FoundPage) error {
		part := a.newFindAnswer(s.relay, page)
		answer.join(part)
		read += len(page.Cards) + len(page.Refused)
		if !o.all {
			return nil
		}
		if page.Cursor != "" {
			a.say("read %d entries so far", read)
		}
		return a.print(part)
	})
	if err != nil {
		return o.failed(ctx, err, answer.Cursor)
	}
	if n := len(answer.Refused); n > 0 {
		a.warn("left out of the directory: %d, which do not verify or do not belong there (--json says why)", n)
	}
	if o.all {
		return a.endFind(o, answer)
	}
	return a.printList(answer, len(answer.Cards), o.failEmpty)
}

// complete checks the options, whose grammars are those of 04#card and
// 02#identifiers.
func (o *findOptions) complete() error {
	if o.Profile != "" && !wire.IsNamespacedID(o.Profile) {
		known, ok := official().profile(o.Profile)
		if !ok {
			return usagef("--profile %q is no profile ID such as ace:text:1", o.Profile)
		}
		o.Profile = known.ID
	}
	switch {
	case o.Limit < 0:
		return usagef("--limit is not negative")
	case o.Limit == 0 && o.all:
		o.Limit = findAllLimit
	case o.Limit == 0:
		o.Limit = findLimit
	}
	return nil
}

// findDeadline bounds all of a search that reads one page or a few. Reading all
// takes as long as it takes, unless the caller says how long.
func (a *app) findDeadline(ctx context.Context, all bool) (context.Context, context.CancelFunc) {
	if all {
		return a.givenDeadline(ctx)
	}
	return a.deadline(ctx)
}

// failed says where to go on.
func (o findOptions) failed(ctx context.Context, err error, cursor *string) error {
	if cursor == nil || *cursor == "" {
		return err
	}
	if errors.Is(context.Cause(ctx), errDeadline) {
		err = fault.New(fault.RelayUnavailable, "the time of --timeout passed")
	}
	return withHint(err, "go on behind what was read with --cursor %s", clean(*cursor, false))
}

// endFind ends a search whose pages have been printed.
func (a *app) endFind(o findOptions, answer findAnswer) error {
	if answer.Cursor != nil {
		a.warn("the directory goes on behind %d entries: give a larger --limit, or --cursor %s", o.Limit, clean(*answer.Cursor, false))
	}
	if len(answer.Cards) == 0 && o.failEmpty {
		return &statusError{exitEmpty, codeEmpty, errors.New("nothing found")}
	}
	return nil
}
