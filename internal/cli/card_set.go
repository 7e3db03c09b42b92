package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// cardChange is what ace card set changes.
type cardChange struct {
	flags *pflag.FlagSet

	description, image, contact, handle, confirm string
	tags, pay, erc8004, settlement, accept       []string
	clear                                        []string
	listed, noPublish                            bool
}

func newCardSetCmd(a *app) *cobra.Command {
	var o cardChange
	c := &cobra.Command{
		Use:   "set [flags]",
		Short: "Change your card, and publish it",
		Long: `Change what you say of yourself, keep it, and publish it. A list that is given
takes the place of the one there was; --clear takes something away. What is refused
changes nothing. When the relay does not answer, the change is kept and published
with the next ace publish, ace maintain or ace listen.

A handle is for good: it is never renamed and never given to somebody else. It is
claimed once its own address has been typed, or with --yes and --confirm HANDLE.

--accept is about you alone and not published: contact requests for these profiles
are accepted by themselves.`,
		Example: `  ace card set --description 'Translates' --tag translation --listed
  ace card set --pay eip155:8453:0x8a5b... --settlement stripe-link
  ace card set --clear tag,image`,
	}
	f := c.Flags()
	o.flags = f
	f.StringVar(&o.description, "description", "", "`TEXT` of at most 256 characters")
	f.StringVar(&o.image, "image", "", "HTTPS `URL` of a picture")
	f.StringSliceVar(&o.tags, "tag", nil, "`TAG` to be found by, at most 10")
	f.StringSliceVar(&o.pay, "pay", nil, "CAIP-10 `ACCOUNT` to be paid at, at most 8")
	f.StringSliceVar(&o.erc8004, "erc8004", nil, "`REGISTRY=ID` of an entry in an agent registry, at most 4")
	f.StringSliceVar(&o.settlement, "settlement", nil, "`METHOD` you take: stripe-link, or stablecoin:ASSET with a CAIP-19 asset")
	f.StringVar(&o.contact, "contact", "", "whether strangers may ask for contact: `open` or closed")
	f.BoolVar(&o.listed, "listed", false, "show the card in the relay's directory; =false hides it")
	f.StringVar(&o.handle, "handle", "", "`NAME` at the relay, for good")
	f.StringSliceVar(&o.accept, "accept", nil, "accept contact requests for this `PROFILE` by themselves")
	f.StringSliceVar(&o.clear, "clear", nil, "take away `MEMBERS`: "+strings.Join(clearable[:], ", "))
	a.completeOption(c, "contact", fixed("open", "closed"))
	a.completeOption(c, "clear", fixed(clearable[:]...))
	a.completeOption(c, "accept", profileValues)
	f.StringVar(&o.confirm, "confirm", "", "`HANDLE` to claim, with --yes")
	f.BoolVar(&o.noPublish, "no-publish", false, "keep the change and publish it later")
	return a.leaf(c, 0, 0, []any{cardSetAnswer{}}, func(ctx context.Context, _ []string) error { return runCardSet(ctx, a, o) })
}

// clearable are the members that --clear takes.
var clearable = [...]string{"description", "image", "tag", "pay", "erc8004", "settlement", "accept"}

// cardSetAnswer is the card as it is kept now. Published is null when it was not
// published.
type cardSetAnswer struct {
	ownCardAnswer
	Published *publishedAnswer `json:"published"`
}

func (r cardSetAnswer) text(p *page) {
	r.ownCardAnswer.text(p)
	if r.Published != nil {
		r.Published.text(p)
	}
}

func runCardSet(ctx context.Context, a *app, o cardChange) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	before := id.settings
	if err := o.apply(&id.settings); err != nil {
		return err
	}
	s, err := a.openAs(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Draft(); err != nil {
		if errors.Is(err, fault.InvalidArgument) {
			err = &statusError{exitUsage, "", err}
		}
		return err
	}
	if err := o.claim(ctx, s, before); err != nil {
		return err
	}
	if err := a.changeSettings(id, o.apply); err != nil {
		return err
	}
	answer := cardSetAnswer{}
	var publishErr error
	if !o.noPublish {
		answer.Published, publishErr = o.publish(ctx, s, before)
	}
	if answer.ownCardAnswer, err = newOwnCardAnswer(ctx, s); err != nil {
		return err
	}
	if publishErr != nil && id.settings.Handle == before.Handle && before.Handle != o.handle && o.handle != "" {
		return publishErr // the handle was given up again
	}
	return errors.Join(a.print(answer), publishErr)
}

// apply changes the settings as the options say.
func (o cardChange) apply(s *settings) error {
	if err := o.clearMembers(s); err != nil {
		return err
	}
	given := o.flags.Changed
	for name, list := range map[string]struct {
		from []string
		to   *[]string
	}{"tag": {o.tags, &s.Tags}, "pay": {o.pay, &s.Pay}, "settlement": {o.settlement, &s.Settlement}} {
		if given(name) {
			*list.to = list.from
		}
	}
	for name, text := range map[string]struct {
		from string
		to   *string
	}{"description": {o.description, &s.Description}, "image": {o.image, &s.Image}, "contact": {o.contact, &s.Contact}, "handle": {o.handle, &s.Handle}} {
		if given(name) {
			*text.to = text.from
		}
	}
	if given("listed") {
		s.Listed = o.listed
	}
	if s.Contact != descriptor.ContactOpen && s.Contact != descriptor.ContactClosed {
		return usagef("--contact is open or closed, not %q", s.Contact)
	}
	if given("settlement") && !slices.Contains(s.Profiles, profile.CommerceID) {
		return hintf(usagef("--settlement: the profile %s is not enabled", profile.CommerceID), "enable it first: ace profile install commerce")
	}
	if err := o.applyRegistry(s); err != nil {
		return err
	}
	return o.applyAccept(s)
}

func (o cardChange) clearMembers(s *settings) error {
	for _, name := range o.clear {
		if !slices.Contains(clearable[:], name) {
			return hintf(usagef("--clear: there is no %q", name), "one of %s", strings.Join(clearable[:], ", "))
		}
		if o.flags.Changed(name) {
			return usagef("--clear %s and --%s contradict each other", name, name)
		}
		switch name {
		case "description":
			s.Description = ""
		case "image":
			s.Image = ""
		case "tag":
			s.Tags = nil
		case "pay":
			s.Pay = nil
		case "erc8004":
			s.ERC8004 = nil
		case "settlement":
			s.Settlement = nil
		case "accept":
			s.Accept = nil
		}
	}
	return nil
}

func (o cardChange) applyRegistry(s *settings) error {
	if !o.flags.Changed("erc8004") {
		return nil
	}
	s.ERC8004 = nil
	for _, text := range o.erc8004 {
		registry, id, ok := strings.Cut(text, "=")
		if !ok {
			return usagef("--erc8004 is REGISTRY=ID, not %q", text)
		}
		s.ERC8004 = append(s.ERC8004, registryEntry{registry, id})
	}
	return nil
}

func (o cardChange) applyAccept(s *settings) error {
	if !o.flags.Changed("accept") {
		return nil
	}
	known, err := s.vocabulary()
	if err != nil {
		return err
	}
	accepted, err := known.named(o.accept)
	if err != nil {
		return err
	}
	s.Accept = map[string]string{}
	for _, m := range accepted {
		s.Accept[m.ID] = m.Digest
	}
	return nil
}

// claim asks before a handle is claimed. One that the relay has bound is the only
// one that the identity can have there (04#card-record).
func (o cardChange) claim(ctx context.Context, s *session, before settings) error {
	if !o.flags.Changed("handle") {
		if o.confirm != "" {
			return usagef("--confirm is for --handle")
		}
		return nil
	}
	if !wire.IsHandle(o.handle) {
		return usagef("%q is no handle: that is 3 to 32 of a-z, 0-9 and single hyphens, a letter first", o.handle)
	}
	signed, at, err := s.OwnCard(ctx)
	if err != nil {
		return err
	}
	if signed != nil && at == s.relay && signed.Home == s.relay && signed.Handle != "" && signed.Handle != o.handle {
		return usagef("a handle is for good: this identity is %s", handleAddress(signed.Handle, s.relay))
	}
	if o.handle == before.Handle {
		return nil
	}
	return s.app.confirmName(ctx, "The handle "+handleAddress(o.handle, s.relay)+" is for good.", o.handle, o.confirm)
}

// publish publishes what is kept. A handle that the relay refuses is given up: it
// is not to be had.
func (o cardChange) publish(ctx context.Context, s *session, before settings) (*publishedAnswer, error) {
	answer, err := s.app.publishWith(ctx, s, core.PublishOptions{Unasked: true})
	switch {
	case err == nil:
		return &answer, nil
	case errors.Is(err, core.ErrWithdrawn):
		s.app.warn("%s is unregistered: the change is kept, and ace --as %s publish publishes it", s.id.name, s.id.name)
		return nil, nil
	case o.flags.Changed("handle") && o.handle != before.Handle && errors.Is(err, fault.RelayRejected):
		return nil, errors.Join(err, s.app.changeSettings(s.id, func(s *settings) error {
			s.Handle = before.Handle
			return nil
		}))
	}
	return nil, withHint(err, "the change is kept; publish it with ace --as %s publish", s.id.name)
}
