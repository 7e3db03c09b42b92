package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

func newProfileCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "profile", Short: "Show and enable the message vocabularies"},
		newProfileListCmd(a), newProfileShowCmd(a), newProfileInstallCmd(a), newProfileRemoveCmd(a), newProfileNewCmd(a), newProfileDigestCmd(a))
}

func newProfileListCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the profiles that ace knows"}
	return a.leaf(c, 0, 0, []any{profileList{}}, func(context.Context, []string) error { return runProfileList(a) })
}

func newProfileShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show the messages of a profile with their schemas", ValidArgsFunction: a.complete(1, profileValues)}
	return a.leaf(c, 1, 1, []any{profileAnswer{}}, func(_ context.Context, args []string) error { return runProfileShow(a, args[0]) })
}

func newProfileDigestCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "digest FILE|-", Short: "Check a manifest and print its digests"}
	return a.leaf(c, 1, 1, []any{profileAnswer{}}, func(_ context.Context, args []string) error { return runProfileDigest(a, args[0]) })
}

// profileLine is one profile of ace profile list.
type profileLine struct {
	ID     string   `json:"id"`
	Digest string   `json:"digest"`
	Types  []string `json:"types"`
	// Enabled is whether the identity announces the profile, null without an
	// identity.
	Enabled *bool `json:"enabled"`
}

type profileList []profileLine

func (r profileList) text(p *page) {
	p.head("ID", "ENABLED", "DIGEST", "TYPES")
	for _, l := range r {
		enabled := "-"
		if l.Enabled != nil {
			enabled = yesNo(*l.Enabled)
		}
		p.row(l.ID, enabled, l.Digest, strings.Join(l.Types, " "))
	}
}

func runProfileList(a *app) error {
	id, known, err := a.vocabulary()
	if err != nil {
		return err
	}
	answer := profileList{}
	for _, m := range known {
		var enabled *bool
		if id != nil {
			is := m.ID == profile.CoreID || slices.Contains(id.settings.Profiles, m.ID)
			enabled = &is
		}
		answer = append(answer, newProfileLine(m, enabled))
	}
	return a.print(answer)
}

// vocabulary returns the profiles that the identity knows, with it, or the
// official ones and nil where it is not clear which identity is meant.
func (a *app) vocabulary() (*identity, vocabulary, error) {
	name, err := a.identityName()
	if err != nil {
		return nil, official(), nil
	}
	id, err := a.openIdentity(name)
	if err != nil {
		return nil, nil, err
	}
	known, err := id.settings.vocabulary()
	return id, known, err
}

// profileAnswer shows one manifest.
type profileAnswer struct {
	ID       string           `json:"id"`
	Digest   string           `json:"digest"`
	Messages []profileMessage `json:"messages"`
}

type profileMessage struct {
	Type   string          `json:"type"`
	Digest string          `json:"digest"`
	Schema json.RawMessage `json:"schema"`
}

func (r profileAnswer) text(p *page) {
	p.row("profile", clean(r.ID, false), r.Digest)
	for _, m := range r.Messages {
		p.row("message", clean(m.Type, false), m.Digest)
		if p.app.command == "ace profile show" {
			p.line("%s", cleanJSON(m.Schema))
		}
	}
}

// showManifest returns the answer for a manifest. The schemas are taken from
// its text, which is the form people compare.
func showManifest(m *profile.Manifest) (profileAnswer, error) {
	var text struct {
		Messages []struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(m.Raw(), &text); err != nil {
		return profileAnswer{}, err
	}
	r := profileAnswer{ID: m.ID, Digest: m.Digest}
	for i, msg := range m.Messages {
		r.Messages = append(r.Messages, profileMessage{msg.Type, msg.Digest, text.Messages[i].Schema})
	}
	return r, nil
}

func runProfileShow(a *app, name string) error {
	_, known, err := a.vocabulary()
	if err != nil {
		return err
	}
	m, ok := known.profile(name)
	if !ok {
		return hintf(usagef("no profile %q", name), "ace profile list shows those there are")
	}
	answer, err := showManifest(m)
	if err != nil {
		return err
	}
	return a.print(answer)
}

// manifestLimit bounds the text of a manifest in bytes; its canonical form has
// a narrower bound of its own.
const manifestLimit = 1 << 20

func runProfileDigest(a *app, file string) error {
	text, err := a.readArg(file, manifestLimit, fault.InvalidArgument)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		return err
	}
	answer, err := showManifest(m)
	if err != nil {
		return err
	}
	return a.print(answer)
}

// parseManifest reads a manifest of a third party, or an official one, which
// alone may use the reserved prefix (08#manifest-format).
func parseManifest(text []byte) (*profile.Manifest, error) {
	m, err := profile.ParseManifest(text)
	if err == nil {
		return m, nil
	}
	v, syntax := wire.Parse(text, wire.MaxJSONDepth)
	if syntax != nil {
		return nil, err
	}
	for _, o := range profile.Official() {
		if bytes.Equal(o.Raw(), v.Canonical()) {
			return o, nil
		}
	}
	return nil, err
}

// profileText is the profile of plain messages and the type of its only one.
const profileText = "ace:text:1"
