package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

// relayConfigFile is the configuration of the relay of this machine, read when
// it is there and no other is named.
const relayConfigFile = "/etc/ace/relay.toml"

// relaySettings are the options of a relay's settings. They come from the table
// of relayconf, as do their variables.
type relaySettings struct {
	file  string
	dev   bool
	flags *pflag.FlagSet
}

func (o *relaySettings) addTo(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.file, "config", "", "configuration `FILE` of the relay (default "+relayConfigFile+", if it is there)")
	ownEnv(f, "config", relayconf.FileVariable)
	more := map[string]string{
		"listen": " (default 127.0.0.1:8420, with --dev a free port)",
		"data":   " (default relay in the folder of all state)",
	}
	for _, k := range relayconf.Keys() {
		switch {
		case k.Flag == "":
			continue
		case k.Kind == relayconf.KindList:
			f.StringSlice(k.Flag, nil, k.Doc+more[k.Flag])
		default:
			f.String(k.Flag, "", k.Doc+more[k.Flag])
		}
		ownEnv(f, k.Flag, relayconf.EnvName(k.Name))
	}
}

// load takes the configuration together.
func (o *relaySettings) load(a *app) (*relayconf.Loaded, []relayconf.Problem) {
	source := relayconf.Source{
		File: o.path(a), Env: a.io.Getenv, Environ: a.io.environ(), Flags: map[string]string{}, Development: o.dev,
		Listen: relayconf.DefaultListen, Data: filepath.Join(a.dataDir(), "relay"),
	}
	if o.dev {
		source.Listen, source.Data = "127.0.0.1:0", ""
	}
	for _, k := range relayconf.Keys() {
		f := o.flags.Lookup(k.Flag)
		switch {
		case f == nil || !f.Changed:
		case k.Kind == relayconf.KindList:
			values, _ := o.flags.GetStringSlice(k.Flag) // it is one
			source.Flags[k.Name] = strings.Join(values, ",")
		default:
			source.Flags[k.Name] = f.Value.String()
		}
	}
	return relayconf.Load(source)
}

// path returns the file to read, "" for none. A development relay reads one
// only when it is named: what this machine's relay does is no concern of it.
func (o *relaySettings) path(a *app) string {
	if o.file != "" {
		return o.file
	}
	if file := a.io.env(relayconf.FileVariable); file != "" {
		return file
	}
	if _, err := os.Stat(relayConfigFile); err == nil && !o.dev {
		return relayConfigFile
	}
	return ""
}

// relayProblems makes one error of all that is wrong.
func relayProblems(problems []relayconf.Problem) error {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return usagef("%s", problems[0])
	}
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return hintf(usagef("%s", strings.Join(all, "; ")), "ace relay check-config lists them one by one")
}

// relayConfig returns the configuration of the relay itself.
func (a *app) relayConfig(l *relayconf.Loaded) relaysvc.Config {
	c := l.Config()
	c.Clock, c.Elapsed = a.io.Now, relaysvc.Stopwatch() // the first is set by people, and by mistake
	// What systemd hands over belongs to root, and an access list opens it to
	// the service.
	dir := a.io.env("CREDENTIALS_DIRECTORY")
	c.TLSKeyGuarded = dir != "" && filepath.Dir(c.TLSKey) == filepath.Clean(dir)
	return c
}

func newRelayCheckConfigCmd(a *app) *cobra.Command {
	var o relaySettings
	var strict, show bool
	c := &cobra.Command{
		Use:   "check-config [--strict] [--print]",
		Short: "Check the configuration of a relay without starting it",
		Long: `Check the configuration that ace relay serve would use: the file, the
environment and these options. Every problem is listed, each with its place.

With --strict also what is allowed and most likely not meant counts as a
problem, such as a relay that others reach over plain HTTP. With --print the
values in effect are printed as a TOML file, each with its origin.`,
		Example: `  ace relay check-config --config /etc/ace/relay.toml --strict
  ace relay check-config --print > relay.toml`,
	}
	o.addTo(c.Flags())
	c.Flags().BoolVar(&strict, "strict", false, "count warnings as problems")
	c.Flags().BoolVar(&show, "print", false, "print the values in effect")
	return a.leaf(c, 0, 0, []any{relayCheck{}}, func(context.Context, []string) error { return runRelayCheckConfig(a, &o, strict, show) })
}

// relayCheck is the answer of check-config.
type relayCheck struct {
	File     *string        `json:"file"`
	Valid    bool           `json:"valid"`
	Problems []relayProblem `json:"problems"`
	Warnings []relayProblem `json:"warnings"`
	Settings []relayValue   `json:"settings,omitempty"`

	toml string // in place of the text, with --print
}

type relayProblem struct {
	Where   *string `json:"where"`
	Key     *string `json:"key"`
	Message string  `json:"message"`
}

// relayValue is the value of a setting, as in the file.
type relayValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func runRelayCheckConfig(a *app, o *relaySettings, strict, show bool) error {
	l, problems := o.load(a)
	warnings := l.Strays() // what is missing may have been set under another name
	if len(problems) == 0 {
		problems, warnings = a.checkRelayFiles(l)
	}
	r := relayCheck{File: orNull(o.path(a)), Problems: relayProblemList(problems), Warnings: relayProblemList(warnings)}
	r.Valid = len(problems) == 0 && !(strict && len(r.Warnings) > 0)
	if show && r.Valid {
		r.toml = l.TOML()
		for _, v := range l.Values() {
			r.Settings = append(r.Settings, relayValue{v.Key, v.Value, string(v.Origin)})
		}
	}
	if err := a.print(r); err != nil || r.Valid {
		return err
	}
	return &reported{exitUsage}
}

// checkRelayFiles looks at what a configuration without a problem names. The
// warnings are of no use when there is a problem.
func (a *app) checkRelayFiles(l *relayconf.Loaded) (problems, warnings []relayconf.Problem) {
	problem := func(key string, err error) {
		problems = append(problems, relayconf.Problem{Where: l.Place(key), Key: key, Text: err.Error()})
	}
	warnings = l.Warnings()
	if _, err := socketPath(l.Data, l.AdminSocket); err != nil {
		problem("admin_socket", err)
	}
	if l.TLSCert == "" {
		return problems, warnings
	}
	warning, err := relaysvc.CheckTLS(a.relayConfig(l))
	switch {
	case err != nil:
		problem("tls.cert", err)
	case warning != "":
		warnings = append(warnings, relayconf.Problem{Where: l.Place("tls.cert"), Key: "tls.cert", Text: warning})
	}
	return problems, warnings
}

func relayProblemList(problems []relayconf.Problem) []relayProblem {
	all := []relayProblem{}
	for _, p := range problems {
		all = append(all, relayProblem{orNull(p.Where), orNull(p.Key), p.Text})
	}
	return all
}

func (r relayCheck) text(p *page) {
	if r.toml != "" {
		fmt.Fprint(p.w, r.toml)
		return
	}
	r.list(p, "problem", r.Problems)
	r.list(p, "warning", r.Warnings)
	if r.Valid {
		p.line("the configuration is valid")
	}
}

func (r relayCheck) list(p *page, kind string, problems []relayProblem) {
	for _, one := range problems {
		text := one.Message
		if one.Key != nil {
			text = *one.Key + ": " + text
		}
		if one.Where != nil {
			text = *one.Where + ": " + text
		}
		p.line("%s: %s", kind, text)
	}
}
