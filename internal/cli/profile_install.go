package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

func newProfileInstallCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "install ID|FILE|-",
		Short: "Enable a profile for an identity",
		Long: `Enable a profile for an identity: an official one by its ID or its short name, or
one of a third party from the FILE with its manifest. Others learn of it with
the next ace publish.

A manifest is data: it says what messages look like and runs nothing. Nothing
that a peer or a relay sends can install one.`,
		Example: `  ace profile install commerce && ace publish
  ace profile install note.json && ace publish`,
	}
	return a.leaf(c, 1, 1, []any{profileLine{}}, func(_ context.Context, args []string) error { return runProfileInstall(a, args[0]) })
}

func newProfileRemoveCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:               "remove ID [--dry-run]",
		ValidArgsFunction: a.complete(1, profileValues),
		Short:             "Disable a profile of an identity",
		Long: `Disable a profile of an identity: its messages are rejected from then on, and the
manifest of a third party is forgotten. What was received and the state of
threads stay. Others learn of it with the next ace publish.`,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{profileLine{}, profilePlan{}}, func(ctx context.Context, args []string) error {
		return runProfileRemove(ctx, a, args[0], dry)
	})
}

// profilePlan is --dry-run.
type profilePlan struct {
	Action  string `json:"action"` // disable, or none for a profile that is not enabled
	ID      string `json:"id"`
	Forgets bool   `json:"forgets_manifest"` // of a third party
	Accepts bool   `json:"ends_accept_rule"` // by which requests for it are accepted
}

func newProfilePlan(s settings, id string) profilePlan {
	plan := profilePlan{Action: "none", ID: id}
	if slices.Contains(s.Profiles, id) {
		plan.Action = "disable"
	}
	_, plan.Forgets = s.Manifests[id]
	_, plan.Accepts = s.Accept[id]
	return plan
}

func runProfileInstall(a *app, name string) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	known, err := id.settings.vocabulary()
	if err != nil {
		return err
	}
	m, ok := known.profile(name)
	if !ok {
		if m, err = a.readManifest(name); err != nil {
			return err
		}
	}
	if m.ID == profile.CoreID {
		return usagef("the profile %s is always enabled", m.ID)
	}
	err = a.changeSettings(id, func(s *settings) error {
		known, err := s.vocabulary()
		if err != nil {
			return err
		}
		return s.install(known, m)
	})
	if err != nil {
		return err
	}
	enabled := true
	return a.print(newProfileLine(m, &enabled))
}

// readManifest reads a manifest from a file that the owner names.
func (a *app) readManifest(name string) (*profile.Manifest, error) {
	text, err := a.readArg(name, manifestLimit, fault.InvalidArgument)
	if err != nil {
		return nil, hintf(err, "ace profile list shows the profiles that have a name; any other needs the file with its manifest")
	}
	return parseManifest(text)
}

// maxProfiles is how many profiles a descriptor can list (04#fields).
const maxProfiles = 32

// install enables a profile. Code: invalid_argument for one that does not go with
// those that are enabled.
func (s *settings) install(known vocabulary, m *profile.Manifest) error {
	if same, ok := known.profile(m.ID); ok && same.Digest != m.Digest {
		return hintf(fault.New(fault.InvalidArgument, "another manifest with the ID %s is installed", m.ID), "ace profile remove %s first", m.ID)
	}
	if slices.Contains(s.Profiles, m.ID) {
		return nil
	}
	set := profile.NewSet()
	others, err := known.named(s.Profiles)
	if err != nil {
		return err
	}
	for _, each := range append(others, m) {
		if err := set.Install(each); err != nil {
			return err
		}
	}
	if len(others) == maxProfiles {
		return fault.New(fault.InvalidArgument, "%d profiles are enabled, and a descriptor lists no more", len(others))
	}
	s.Profiles = append(s.Profiles, m.ID)
	if _, ok := official().profile(m.ID); !ok {
		if s.Manifests == nil {
			s.Manifests = map[string]string{}
		}
		s.Manifests[m.ID] = string(m.Raw())
	}
	text, err := s.encode()
	if err == nil && len(text) > configLimit {
		err = fault.New(fault.InvalidArgument, "the installed manifests have %d bytes together, more than %d", len(text), configLimit)
	}
	return err
}

// runProfileRemove disables a profile. One whose requests were accepted by
// themselves is not accepted any more.
func runProfileRemove(ctx context.Context, a *app, name string, dry bool) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	known, err := id.settings.vocabulary()
	if err != nil {
		return err
	}
	named, err := known.named([]string{name})
	if err != nil {
		return err
	}
	m := named[0]
	if dry {
		return a.printJSON(newProfilePlan(id.settings, m.ID))
	}
	if slices.Contains(id.settings.Profiles, m.ID) {
		if err := a.confirm(ctx, "Messages of "+m.ID+" will be rejected: disable it?"); err != nil {
			return err
		}
	}
	err = a.changeSettings(id, func(s *settings) error {
		s.Profiles = slices.DeleteFunc(s.Profiles, func(e string) bool { return e == m.ID })
		delete(s.Manifests, m.ID)
		delete(s.Accept, m.ID)
		return nil
	})
	if err != nil {
		return err
	}
	enabled := false
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

func newProfileNewCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "new ID",
		Short: "Print a manifest to begin a profile of your own with",
		Long: `Print a manifest to begin a profile of your own with: one message type of the same
name, with one text in its body. An ID is written NAMESPACE:NAME:VERSION.`,
		Example: "  ace profile new example:note:1 > note.json",
	}
	return a.leaf(c, 1, 1, []any{manifestDraft{}}, func(_ context.Context, args []string) error { return runProfileNew(a, args[0]) })
}

// manifestDraft is a manifest as people write it.
type manifestDraft struct {
	ID       string         `json:"id"`
	Messages []messageDraft `json:"messages"`
}

type messageDraft struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

const draftSchema = `{"type":"object","properties":{"message":{"type":"string","maxLength":4096}},"required":["message"],"additionalProperties":false}`

func (r manifestDraft) text(p *page) {
	text, _ := json.MarshalIndent(r, "", "  ") // nothing in it can fail
	p.line("%s", text)
}

func runProfileNew(a *app, id string) error {
	draft := manifestDraft{ID: id, Messages: []messageDraft{{Type: id, Schema: json.RawMessage(draftSchema)}}}
	text, err := json.Marshal(draft)
	if err != nil {
		return err
	}
	if _, err := profile.ParseManifest(text); err != nil {
		hint := "an ID is NAMESPACE:NAME:VERSION, as in example:note:1"
		if strings.HasPrefix(id, "ace:") {
			hint = "the namespace ace: is that of the specification"
		}
		return hintf(&statusError{exitUsage, "", err}, "%s", hint)
	}
	return a.print(draft)
}
