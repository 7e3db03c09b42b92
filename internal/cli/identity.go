package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/keystore"
)

func newIdentityCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "identity", Aliases: []string{"id"}, Short: "Make, show, keep, renew and end your identities"},
		newIdentityNewCmd(a), newIdentityShowCmd(a), newIdentityListCmd(a), newIdentityLogCmd(a), newIdentitySafetyCmd(a),
		newIdentityUseCmd(a), newIdentityRenameCmd(a), newIdentityExportCmd(a), newIdentityBackupCmd(a), newIdentityPassphraseCmd(a),
		newIdentityDelegateCmd(a), newIdentityRotateCmd(a), newIdentityRecoverCmd(a), newIdentityDestroyCmd(a))
}

func newIdentityShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show [NAME]", Short: "Show an identity, without opening its keys", ValidArgsFunction: a.complete(1, identityValues)}
	return a.leaf(c, 0, 1, []any{identityAnswer{}}, func(_ context.Context, args []string) error {
		return runIdentityShow(a, args)
	})
}

func newIdentityListCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the identities of this home"}
	return a.leaf(c, 0, 0, []any{identityList{}}, func(context.Context, []string) error { return runIdentityList(a) })
}

// identityAnswer is what can be told of an identity from its files.
type identityAnswer struct {
	Name      string  `json:"name"`
	ACEID     string  `json:"ace_id"`
	Relay     *string `json:"relay"`
	Handle    *string `json:"handle"`
	Contact   string  `json:"contact"`
	Listed    bool    `json:"listed"`
	Dev       bool    `json:"dev"`
	Encrypted bool    `json:"encrypted"`
	KELSeq    int64   `json:"kel_seq"`
	CreatedAt int64   `json:"created_at"`
	// KeyExpiresAt is when the signing key ends, null until it is replaced.
	KeyExpiresAt *int64 `json:"key_expires_at"`
	Folder       string `json:"folder"`
}

func (r identityAnswer) text(p *page) {
	p.row("name", r.Name)
	p.row("ace id", r.ACEID)
	p.row("relay", orDash(r.Relay))
	p.row("handle", orDash(r.Handle))
	p.row("contact", r.Contact)
	p.row("created", p.time(r.CreatedAt))
	if r.KeyExpiresAt != nil {
		p.row("signing key until", p.time(*r.KeyExpiresAt))
	}
	p.row("passphrase", yesNo(r.Encrypted))
	if r.Dev {
		p.row("for development", "yes")
	}
	p.row("folder", r.Folder)
}

// describe reads what the files of an identity say.
func (a *app) describe(id *identity) (identityAnswer, error) {
	log, err := id.store.Log(a.io.Now())
	if err != nil {
		return identityAnswer{}, err
	}
	encrypted, err := id.store.Encrypted()
	if err != nil {
		return identityAnswer{}, err
	}
	s := id.settings
	r := identityAnswer{
		Name: id.name, ACEID: log.ACEID(), Relay: orNull(s.Relay), Handle: orNull(handleAddress(s.Handle, s.Relay)),
		Contact: s.Contact, Listed: s.Listed, Dev: s.Dev, Encrypted: encrypted,
		KELSeq: log.Seq(), CreatedAt: log.Events()[0].TS, Folder: id.store.Dir(),
	}
	if d := log.Delegated(); d != nil {
		r.KeyExpiresAt = timeOrNull(d.NotAfter)
	}
	return r, nil
}

// named is the identity that an optional argument names, else the one to act
// as.
func (a *app) named(args []string) (*identity, error) {
	if len(args) == 1 {
		a.flags.as = args[0]
	}
	return a.identity()
}

func runIdentityShow(a *app, args []string) error {
	id, err := a.named(args)
	if err != nil {
		return err
	}
	answer, err := a.describe(id)
	if err != nil {
		return err
	}
	return a.print(answer)
}

// identityList is the answer of ace identity list.
type identityList []identityAnswer

func (r identityList) text(p *page) {
	p.head("NAME", "ACE ID", "RELAY", "HANDLE")
	for _, id := range r {
		p.row(id.Name, p.id(id.ACEID), orDash(id.Relay), orDash(id.Handle))
	}
}

func runIdentityList(a *app) error {
	names, err := keystore.List(a.identitiesDir())
	if err != nil {
		return err
	}
	answer := identityList{}
	for _, name := range names {
		id, err := a.openIdentity(name)
		if err != nil {
			return err
		}
		one, err := a.describe(id)
		if err != nil {
			return err
		}
		answer = append(answer, one)
	}
	return a.print(answer)
}
