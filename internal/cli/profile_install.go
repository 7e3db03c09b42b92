package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/profile"
)

func newProfileInstallCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "install ID",
		Short: "Enable an official profile for an identity",
		Long: `Enable an official profile for an identity, by its ID or its short name. Others
learn of it with the next ace publish.`,
		Example: "  ace profile install commerce && ace publish",
	}
	return a.leaf(c, 1, 1, []any{profileLine{}}, func(_ context.Context, args []string) error {
		return a.changeProfiles(args[0], func(enabled []string, id string) ([]string, error) {
			if slices.Contains(enabled, id) {
				return enabled, nil
			}
			return append(enabled, id), nil
		})
	})
}

func newProfileRemoveCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "remove ID",
		Short: "Disable a profile of an identity",
		Long: `Disable a profile of an identity: its messages are rejected from then on. What was
received and the state of threads stay. Others learn of it with the next ace
publish.`,
	}
	return a.leaf(c, 1, 1, []any{profileLine{}}, func(ctx context.Context, args []string) error {
		return a.changeProfiles(args[0], func(enabled []string, id string) ([]string, error) {
			if !slices.Contains(enabled, id) {
				return enabled, nil
			}
			keep := slices.DeleteFunc(slices.Clone(enabled), func(e string) bool { return e == id })
			return keep, a.confirm(ctx, "Messages of "+id+" will be rejected: disable it?")
		})
	})
}

// changeProfiles changes which profiles the identity has enabled. A profile whose
// requests were accepted by themselves is not accepted when it is disabled.
func (a *app) changeProfiles(name string, change func(enabled []string, id string) ([]string, error)) error {
	named, err := enabledProfiles([]string{name})
	if err != nil {
		return err
	}
	m := named[0]
	id, err := a.identity()
	if err != nil {
		return err
	}
	s := &id.settings
	if s.Profiles, err = change(s.Profiles, m.ID); err != nil {
		return err
	}
	enabled := slices.Contains(s.Profiles, m.ID)
	if !enabled {
		delete(s.Accept, m.ID)
	}
	if err := s.write(id.store.Dir()); err != nil {
		return err
	}
	return a.print(newProfileLine(m, &enabled))
}

// newProfileLine describes a profile; enabled is null without an identity.
func newProfileLine(m *profile.Manifest, enabled *bool) profileLine {
	line := profileLine{ID: m.ID, Digest: m.Digest, Enabled: enabled}
	for _, msg := range m.Messages {
		line.Types = append(line.Types, msg.Type)
	}
	return line
}

func (r profileLine) text(p *page) {
	p.row("profile", r.ID)
	p.row("enabled", yesNo(r.Enabled != nil && *r.Enabled))
}
