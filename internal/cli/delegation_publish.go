package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// maxCredentials is how many credentials a descriptor can show
// (delegation#descriptor-extension).
const maxCredentials = 4

func newDelegationPublishCmd(a *app) *cobra.Command {
	var noPublish bool
	c := &cobra.Command{
		Use:   "publish FILE|-",
		Short: "Show in your descriptor that you act for somebody",
		Long: `Verify a credential whose subject you are, keep it, and show it in your descriptor,
where it takes the place of an older one of the same issuer. FILE has the
credential, or the body of the message with it. It is shown until it ends; at most
four can be.`,
		Example: `  ace inbox --type ace:delegation:1 --jq '.[-1].untrusted.body' | ace delegation publish -`,
	}
	c.Flags().BoolVar(&noPublish, "no-publish", false, "keep it and publish it later")
	return a.leaf(c, 1, 1, []any{shownCredentials{}}, func(ctx context.Context, args []string) error {
		return runDelegationPublish(ctx, a, args[0], noPublish)
	})
}

func newDelegationListCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the credentials that your descriptor shows"}
	return a.leaf(c, 0, 0, []any{shownCredentials{}}, func(context.Context, []string) error {
		id, err := a.identity()
		if err != nil {
			return err
		}
		return a.printShown(id, nil)
	})
}

func newDelegationWithdrawCmd(a *app) *cobra.Command {
	var noPublish bool
	c := &cobra.Command{
		Use:   "withdraw ISSUER",
		Short: "No longer show that you act for somebody",
		Long: `Take the credential of an issuer out of your descriptor. It stays valid for whoever
has it, until it ends.`,
		ValidArgsFunction: a.complete(1, peerValues),
	}
	c.Flags().BoolVar(&noPublish, "no-publish", false, "publish that later")
	return a.leaf(c, 1, 1, []any{shownCredentials{}}, func(ctx context.Context, args []string) error {
		return runDelegationWithdraw(ctx, a, args[0], noPublish)
	})
}

// shownCredentials are the credentials that are kept for the descriptor. Published
// is null when nothing was published.
type shownCredentials struct {
	Credentials []shownCredential `json:"credentials"`
	Published   *publishedAnswer  `json:"published"`
}

// shownCredential is one of them. One that has ended is not published any more.
type shownCredential struct {
	Issuer    string `json:"issuer"`
	IssuedAt  int64  `json:"issued_at"`
	ExpiresAt int64  `json:"expires_at"`
	Ended     bool   `json:"ended"`
}

func (r shownCredentials) text(p *page) {
	if len(r.Credentials) == 0 {
		p.line("the descriptor shows no credential")
	}
	for _, c := range r.Credentials {
		state := "shown"
		if c.Ended {
			state = "ended"
		}
		p.row(p.id(c.Issuer), state, p.time(c.ExpiresAt))
	}
	if r.Published != nil {
		r.Published.text(p)
	}
}

func runDelegationPublish(ctx context.Context, a *app, file string, noPublish bool) error {
	text, err := a.readArg(file, wire.MaxExtBytes, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	id, err := a.identity()
	if err != nil {
		return err
	}
	if !slices.Contains(id.settings.Profiles, profile.DelegationID) {
		return hintf(usagef("the profile %s is not enabled", profile.DelegationID), "enable it first: ace profile install delegation")
	}
	s, err := a.openAs(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	looking, cancel := a.deadline(ctx)
	defer cancel()
	c, err := s.verifyCredential(looking, text)
	switch {
	case err != nil:
		return err
	case c.Subject != s.ACEID():
		return fault.New(fault.InvalidAuthorization, "the subject of the credential is %s, not %s", c.Subject, id.name)
	}
	now := a.io.Now()
	err = a.changeSettings(id, func(s *settings) error {
		list, err := s.credentials()
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(e keptCredential) bool { return e.Issuer == c.Issuer || e.ExpiresAt <= now })
		if len(list) == maxCredentials {
			return hintf(usagef("a descriptor shows no more than %d credentials", maxCredentials), "ace delegation withdraw ISSUER takes one away")
		}
		s.Credentials = nil
		for _, e := range append(list, keptCredential{text: string(c.Raw())}) {
			s.Credentials = append(s.Credentials, e.text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.publishShown(ctx, id, noPublish)
}

func runDelegationWithdraw(ctx context.Context, a *app, issuer string, noPublish bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if issuer, err = s.peer(ctx, issuer); err != nil {
		return err
	}
	err = a.changeSettings(s.id, func(s *settings) error {
		list, err := s.credentials()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(e keptCredential) bool { return e.Issuer == issuer })
		if at < 0 {
			return hintf(fault.New(fault.InvalidArgument, "no credential of %s is kept", issuer), "ace delegation list shows them")
		}
		s.Credentials = slices.Delete(s.Credentials, at, at+1)
		return nil
	})
	if err != nil {
		return err
	}
	return a.publishShown(ctx, s.id, noPublish)
}

// publishShown publishes what is kept, with the settings as they are now.
func (a *app) publishShown(ctx context.Context, id *identity, noPublish bool) error {
	if noPublish {
		return a.printShown(id, nil)
	}
	s, err := a.openAs(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	answer, err := a.publishWith(ctx, s, core.PublishOptions{Unasked: true})
	if err != nil {
		return withHint(err, "the change is kept; publish it with ace --as %s publish", id.name)
	}
	return a.printShown(id, &answer)
}

func (a *app) printShown(id *identity, published *publishedAnswer) error {
	list, err := id.settings.credentials()
	if err != nil {
		return err
	}
	answer := shownCredentials{Credentials: []shownCredential{}, Published: published}
	for _, c := range list {
		answer.Credentials = append(answer.Credentials, shownCredential{c.Issuer, c.IssuedAt, c.ExpiresAt, c.ExpiresAt <= a.io.Now()})
	}
	return a.print(answer)
}

// keptCredential is a credential of the settings.
type keptCredential struct {
	profile.Credential
	text string
}

// credentials reads those of the settings.
func (s settings) credentials() (list []keptCredential, err error) {
	for _, text := range s.Credentials {
		v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
		if err != nil {
			return nil, fault.Wrapf(fault.StorageFailed, err, "%s: credentials", settingsFile)
		}
		r := wire.NewReader(v, "credential")
		// They were verified when they came, so their times are no question.
		c := profile.ReadCredential(r, wire.MaxInt-wire.TimestampWindowSeconds)
		if err := r.Err(); err != nil {
			return nil, fault.Wrapf(fault.StorageFailed, err, "%s: credentials", settingsFile)
		}
		list = append(list, keptCredential{c, text})
	}
	return list, nil
}
