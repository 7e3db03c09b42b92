package cli

import (
	"context"
	"errors"
	"time"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flags are the options that all commands share.
type flags struct {
	home, as, config, relay string
	json, schema, quiet     bool
	jq                      string
	query                   *gojq.Code // of jq
	fields                  []string
	verbose, width          int
	timeText                string
	color, trace            string
	time                    timeStyle // of timeText
	utc                     bool
	timeout                 time.Duration
	timeoutGiven            bool // by the caller, in any way
	noInput, yes            bool
	passphrase              passphraseSource
	allowLoopback           bool
}

const defaultTimeout = 30 * time.Second

func (a *app) addGlobalFlags(root *cobra.Command) {
	f, g := &a.flags, root.PersistentFlags()
	g.StringVar(&f.home, "home", "", "`DIR` of all state (default $XDG_DATA_HOME/ace)")
	g.StringVar(&f.as, "as", "", "local `NAME` of the identity to act as")
	g.StringVar(&f.config, "config", "", "configuration `FILE` (default $XDG_CONFIG_HOME/ace/config.toml)")
	g.StringVar(&f.relay, "relay", "", "home relay for this call, a `URL` or dev")
	g.BoolVar(&f.json, "json", false, "answer with JSON")
	g.BoolVar(&f.schema, "json-schema", false, "print the JSON Schema of the command's answer and do nothing else")
	g.StringVar(&f.jq, "jq", "", "filter the JSON answer with a jq `EXPR`")
	g.StringSliceVar(&f.fields, "fields", nil, "keep only these JSON `MEMBERS`; help lists them")
	g.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but the answer and errors")
	g.CountVarP(&f.verbose, "verbose", "v", "tell more about what happens")
	g.StringVar(&f.trace, "trace", "", "write a line for each request to this `FILE`, without one to standard error")
	g.Lookup("trace").NoOptDefVal = traceToError
	g.StringVar(&f.color, "color", "", "`WHEN` to use colour: auto, always or never (default auto)")
	g.IntVar(&f.width, "width", 0, "width of text in `COLUMNS` (default that of the terminal)")
	g.BoolVar(&f.utc, "utc", false, "show times in UTC")
	g.StringVar(&f.timeText, "time", "", "`STYLE` of times in text: rfc3339, unix or relative")
	durationVar(g, &f.timeout, "timeout", defaultTimeout, "`DURATION` to wait on the network at most, 0 for no limit")
	g.BoolVar(&f.noInput, "no-input", false, "never ask")
	g.BoolVarP(&f.yes, "yes", "y", false, "answer yes to the command's question")
	g.StringVar(&f.passphrase.File, "passphrase-file", "", "`FILE` to read the passphrase from")
	g.IntVar(&f.passphrase.fd, "passphrase-fd", -1, "file descriptor `N` to read the passphrase from")
	g.StringVar(&f.passphrase.shell, "passphrase-command", "", "`COMMAND` that prints the passphrase")
	g.BoolVar(&f.allowLoopback, "allow-loopback", false, "allow relays at http://localhost (development only)")
	g.Lookup("passphrase-fd").DefValue = "0" // keeps "-1" out of help
}

// prepare completes the global options from the environment and the
// configuration, and checks them.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := checkNotEmpty(cmd); err != nil {
		return err
	}
	if err := a.readEnv(cmd); err != nil {
		return err
	}
	if err := checkSources(cmd); err != nil {
		return err
	}
	f := &a.flags
	if f.jq != "" || len(f.fields) > 0 {
		f.json = true
	}
	if err := a.readConfig(cmd); err != nil {
		return err
	}
	switch colorChoice(f.color) {
	case "", colorAuto, colorAlways, colorNever:
	default:
		return usagef("--color is auto, always or never, not %q", f.color)
	}
	f.time = timeStyle(f.timeText)
	switch f.time {
	case "", timeRFC3339, timeUnix, timeRelative:
	default:
		return usagef("--time is rfc3339, unix or relative, not %q", f.timeText)
	}
	if f.timeout < 0 || f.width < 0 {
		return usagef("--timeout and --width are not negative")
	}
	if f.width > 0 {
		a.io.Columns = f.width
	}
	if err := a.compileQuery(); err != nil {
		return err
	}
	return a.openTrace()
}

// checkNotEmpty refuses an option that is given with an empty value, as a script
// does whose variable is not set: without it the command would do something
// else, such as leaving keys unencrypted. A note may be empty.
func checkNotEmpty(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == "" || f.Value.String() == "[]"
		if empty && f.Name != "note" && f.Name != "profiles" && err == nil {
			err = usagef("--%s is empty", f.Name)
		}
	})
	return err
}

func (a *app) compileQuery() error {
	if a.flags.jq == "" {
		return nil
	}
	query, err := gojq.Parse(a.flags.jq)
	if err == nil {
		a.flags.query, err = gojq.Compile(query)
	}
	if err != nil {
		return usagef("--jq: %v", err)
	}
	return nil
}

// deadline bounds ctx by --timeout.
func (a *app) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.flags.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, a.flags.timeout, errDeadline)
}

// givenDeadline is deadline for a command that takes as long as it takes, unless
// its caller says how long that may be.
func (a *app) givenDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if !a.flags.timeoutGiven {
		return context.WithCancel(ctx)
	}
	return a.deadline(ctx)
}

// interactive reports whether somebody can be asked.
func (a *app) interactive() bool {
	return a.io.InTTY && a.io.ErrTTY && !a.flags.noInput && !a.flags.json
}

// errDeadline is the end of --timeout while the work goes on.
var errDeadline = &statusError{exitDeadline, codeDeadline, errors.New("the deadline passed")}
