package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

type exportOptions struct {
	public     bool
	descriptor bool
	card       bool
	out        string
}

func newIdentityExportCmd(a *app) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [NAME] --public [--descriptor|--card] [-o FILE]",
		Short: "Write what others can verify of an identity without a relay",
		Long: `Write the key event log of an identity, which is public: whoever has it can check
with ace kel verify who the identity is and what it has signed of itself. With
--descriptor it is the descriptor as last published, which carries the log and is
checked with ace descriptor verify, and with --card the card record; both need the
passphrase.

No secret is ever exported: for those there is ace identity backup.`,
		Example:           "  ace identity export --public -o alice.kel.json",
		ValidArgsFunction: a.complete(1, identityValues),
	}
	f := c.Flags()
	f.BoolVar(&o.public, "public", false, "say that what is written is public (required)")
	f.BoolVar(&o.descriptor, "descriptor", false, "the published descriptor, with the log in it")
	f.BoolVar(&o.card, "card", false, "the published card record, with the log in it")
	f.StringVarP(&o.out, "output", "o", "", "`FILE` to make; it must not exist (default standard output)")
	return a.leaf(c, 0, 1, []any{exportAnswer{}}, func(ctx context.Context, args []string) error { return runIdentityExport(ctx, a, args, o) })
}

// exportAnswer describes a document that was written to a file, or carries it.
type exportAnswer struct {
	Name   string `json:"name"`
	ACEID  string `json:"ace_id"`
	Kind   string `json:"kind"` // kel, descriptor or card
	KELSeq int64  `json:"kel_seq"`
	SHA256 string `json:"sha256"` // of the file
	// ExpiresAt is when a descriptor ends. A log does not.
	ExpiresAt *int64          `json:"expires_at"`
	Path      *string         `json:"path"`
	Document  json.RawMessage `json:"document,omitempty"` // when no file was named
}

func (r exportAnswer) text(p *page) {
	if r.Path == nil {
		fmt.Fprintf(p.w, "%s", r.Document) // canonical JSON with the end of the line
		return
	}
	p.line("wrote the %s of %s to %s", r.Kind, r.Name, *r.Path)
}

func runIdentityExport(ctx context.Context, a *app, args []string, o exportOptions) error {
	if !o.public {
		return hintf(usagef("only what is public is exported: say so with --public"), "secrets go into a backup: ace identity backup create -o FILE")
	}
	if o.card && o.descriptor {
		return usagef("--descriptor and --card are two documents: export one at a time")
	}
	id, err := a.named(args)
	if err != nil {
		return err
	}
	log, err := id.store.Log(a.io.Now())
	if err != nil {
		return err
	}
	answer := exportAnswer{Name: id.name, ACEID: log.ACEID(), Kind: "kel", KELSeq: log.Seq()}
	raw := log.Raw()
	if o.descriptor {
		answer.Kind = "descriptor"
		if raw, answer.ExpiresAt, err = a.ownDescriptor(ctx, id); err != nil {
			return err
		}
	}
	if o.card {
		answer.Kind = "card"
		if raw, err = a.ownCard(ctx, id); err != nil {
			return err
		}
	}
	raw = append(raw[:len(raw):len(raw)], '\n')
	answer.SHA256 = suite.Hex256(raw)
	if o.out == "" {
		answer.Document = raw
		return a.print(answer)
	}
	err = ownerfile.Create(o.out, raw)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already", o.out)
	}
	if err != nil {
		return err
	}
	answer.Path = &o.out
	return a.print(answer)
}

// ownDescriptor returns the descriptor of an identity as last published, when
// others would still accept it.
func (a *app) ownDescriptor(ctx context.Context, id *identity) (raw []byte, expires *int64, err error) {
	s, err := a.unlock(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	raw, err = s.OwnDocument(ctx, store.OwnDescriptor)
	if err != nil {
		return nil, nil, err
	}
	if raw != nil {
		d, err := descriptor.DecodeStored(raw)
		if err != nil {
			return nil, nil, err
		}
		if d.Usable(a.io.Now(), s.unlocked.Identity.State()) {
			return raw, &d.ExpiresAt, nil
		}
	}
	return nil, nil, hintf(fault.New(fault.IdentityUnavailable, "%s has no descriptor that is valid now", id.name), "publish one with ace --as %s publish", id.name)
}

// ownCard returns the card record of an identity as last published, when others
// would still accept it: it is signed anew after each new signing key
// (04#card-record).
func (a *app) ownCard(ctx context.Context, id *identity) ([]byte, error) {
	s, err := a.unlock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	card, relay, err := s.OwnCard(ctx)
	if err != nil {
		return nil, err
	}
	if card == nil || relay == "" || card.KELEnd() != s.unlocked.Identity.State().LastHash() {
		return nil, hintf(fault.New(fault.IdentityUnavailable, "%s has no published card record that is valid now", id.name), "publish one with ace --as %s publish", id.name)
	}
	return card.Raw(), nil
}
