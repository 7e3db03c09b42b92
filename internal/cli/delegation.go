package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/span"
)

func newDelegationCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "delegation", Short: "Declare, and check, that one identity acts for another"},
		newDelegationIssueCmd(a), newDelegationVerifyCmd(a), newDelegationPublishCmd(a), newDelegationListCmd(a), newDelegationWithdrawCmd(a))
}

func newDelegationIssueCmd(a *app) *cobra.Command {
	var expires time.Duration
	c := &cobra.Command{
		Use:               "issue PEER [--expires DURATION]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Sign that a peer acts on your behalf",
		Long: `Sign that a peer acts on your behalf, and print the credential. It grants no right
by itself: what it is worth is decided by those who are shown it. It is revoked by
not renewing it. Nothing is sent.`,
		Example: `  ace delegation issue bob --expires 24h > credential.json
  ace send bob --type delegation --set-file credential=credential.json`,
	}
	durationVar(c.Flags(), &expires, "expires", profile.MaxCredentialLifetime*time.Second, "`DURATION` that it is valid for, at most 7d")
	return a.leaf(c, 1, 1, []any{credentialAnswer{}}, func(ctx context.Context, args []string) error {
		return runDelegationIssue(ctx, a, args[0], expires)
	})
}

func newDelegationVerifyCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify FILE|-",
		Short: "Check that one identity acts for another",
		Long: `Check a credential: its issuer is looked up and pinned, and the signature checked
under that pin. The answer holds for that pin: after the issuer has changed keys,
check again. When the issuer cannot be looked up, nothing is known.`,
	}
	return a.leaf(c, 1, 1, []any{credentialAnswer{}}, func(ctx context.Context, args []string) error {
		return runDelegationVerify(ctx, a, args[0])
	})
}

// credentialAnswer is a credential that was issued here or that is verified.
type credentialAnswer struct {
	Issuer     string          `json:"issuer"`
	Subject    string          `json:"subject"`
	IssuedAt   int64           `json:"issued_at"`
	ExpiresAt  int64           `json:"expires_at"`
	Credential json.RawMessage `json:"credential"`
}

func newCredentialAnswer(c *delegation.Credential) credentialAnswer {
	return credentialAnswer{Issuer: c.Issuer, Subject: c.Subject, IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt, Credential: c.Raw()}
}

// text prints the credential as others take it.
func (r credentialAnswer) text(p *page) { p.line("%s", cleanJSON(r.Credential)) }

// verifiedCredential is a credential whose contents people ask for.
type verifiedCredential struct{ credentialAnswer }

func (r verifiedCredential) text(p *page) {
	p.row("subject", r.Subject)
	p.row("acts for", r.Issuer)
	p.row("issued", p.time(r.IssuedAt))
	p.row("until", p.time(r.ExpiresAt))
}

func runDelegationIssue(ctx context.Context, a *app, peer string, expires time.Duration) error {
	if expires < time.Second || expires > profile.MaxCredentialLifetime*time.Second {
		return usagef("--expires is between 1s and 7d, not %s", span.String(expires))
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	subject, err := s.other(ctx, peer)
	if err != nil {
		return err
	}
	c, err := s.IssueCredential(subject, int64(expires/time.Second))
	if err != nil {
		return err
	}
	return a.print(newCredentialAnswer(c))
}

func runDelegationVerify(ctx context.Context, a *app, file string) error {
	text, err := a.readArg(file, wire.MaxExtBytes, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	c, err := s.verifyCredential(ctx, text)
	if err != nil {
		return err
	}
	return a.print(verifiedCredential{newCredentialAnswer(c)})
}

// verifyCredential verifies the text of a credential, or of the body of the message
// that handed it over.
func (s *session) verifyCredential(ctx context.Context, text []byte) (*delegation.Credential, error) {
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	if inner, ok := v.Get("credential"); ok && len(v.Members()) == 1 {
		v = inner
	}
	return s.VerifyCredential(ctx, v)
}
