package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
)

// app is one run of the program.
type app struct {
	io      IO
	flags   flags
	conf    config
	command string // the path of the running command, "ace contact list"
	// answers has, for each command, a value of each type it answers with.
	answers map[*cobra.Command][]any
}

// flags are the options that all commands share.
type flags struct {
	home, as, config, relay string
	json, schema, quiet     bool
	jq                      string
	query                   *gojq.Code // of jq
	fields                  []string
	verbose, width          int
	timeText                string
	time                    timeStyle // of timeText
	utc                     bool
	timeout                 time.Duration
	timeoutGiven            bool // by the caller, in any way
	noInput, yes            bool
	passphrase              passphraseSource
	allowLoopback           bool
}

const defaultTimeout = 30 * time.Second

// The groups of commands in help.
const (
	groupIdentity = "identity"
	groupPeople   = "people"
	groupMessages = "messages"
	groupInspect  = "inspect"
	groupOther    = "other"
)

// entry is a command directly below ace.
type entry struct {
	group string
	names []string // the name and its aliases
	make  func(*app) *cobra.Command
}

func entries() []entry {
	return []entry{
		{groupIdentity, []string{"init"}, newInitCmd},
		{groupIdentity, []string{"identity", "id"}, newIdentityCmd},
		{groupIdentity, []string{"status"}, newStatusCmd},
		{groupIdentity, []string{"publish"}, newPublishCmd},
		{groupPeople, []string{"lookup"}, newLookupCmd},
		{groupPeople, []string{"connect"}, newConnectCmd},
		{groupPeople, []string{"contact"}, newContactCmd},
		{groupMessages, []string{"send"}, newSendCmd},
		{groupMessages, []string{"pull"}, newPullCmd},
		{groupMessages, []string{"inbox"}, newInboxCmd},
		{groupMessages, []string{"read"}, newReadCmd},
		{groupMessages, []string{"listen"}, newListenCmd},
		{groupMessages, []string{"outbox"}, newOutboxCmd},
		{groupInspect, []string{"explain"}, newExplainCmd},
		{groupInspect, []string{"profile"}, newProfileCmd},
		{groupInspect, []string{"packet"}, newPacketCmd},
		{groupInspect, []string{"kel"}, newKELCmd},
		{groupInspect, []string{"descriptor"}, newDescriptorCmd},
		{groupInspect, []string{"permit"}, newPermitCmd},
		{groupOther, []string{"demo"}, newDemoCmd},
		{groupOther, []string{"relay"}, newRelayCmd},
		{groupOther, []string{"version"}, newVersionCmd},
		{"", []string{"interop"}, newInteropCmd},
	}
}

// wholeTree lists the commands that look at all others.
func wholeTree() []entry {
	return []entry{
		{groupOther, []string{"completion"}, newCompletionCmd},
		{groupOther, []string{"man"}, newManCmd},
		{"", []string{"gen"}, newGenCmd},
	}
}

// root makes the tree of commands, which opens no file. Of the commands below
// ace it makes only those that the arguments name: the others would cost each
// start more than most commands take. It makes all of them when no argument is
// a command, or when there are no arguments.
func (a *app) root(args []string) *cobra.Command {
	a.answers = map[*cobra.Command][]any{}
	root := a.bareRoot()
	for _, e := range entries() {
		if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(e.names, arg) }) {
			root.AddCommand(e.make(a))
		}
	}
	if root.HasSubCommands() && !slices.ContainsFunc(args, needsWholeTree) {
		return root
	}
	root = a.bareRoot()
	root.AddGroup(
		&cobra.Group{ID: groupIdentity, Title: "You:"},
		&cobra.Group{ID: groupPeople, Title: "Peers:"},
		&cobra.Group{ID: groupMessages, Title: "Messages:"},
		&cobra.Group{ID: groupInspect, Title: "Looking into things:"},
		&cobra.Group{ID: groupOther, Title: "Relay and program:"},
	)
	for _, e := range append(entries(), wholeTree()...) {
		c := e.make(a)
		c.GroupID = e.group
		root.AddCommand(c)
	}
	root.SetHelpCommand(newHelpCmd(a))
	root.SetHelpCommandGroupID(groupOther)
	root.InitDefaultHelpCmd()
	// The name of the option is right, so registering cannot fail.
	_ = root.RegisterFlagCompletionFunc("as", a.completeIdentity)
	return root
}

func needsWholeTree(arg string) bool {
	if arg == "help" || arg == cobra.ShellCompRequestCmd || arg == cobra.ShellCompNoDescRequestCmd {
		return true
	}
	return slices.ContainsFunc(wholeTree(), func(e entry) bool { return slices.Contains(e.names, arg) })
}

// bareRoot makes the command ace without the commands below it.
func (a *app) bareRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ace",
		Short: "Post-quantum agent identities and private messages",
		Long: `ace gives an agent, or a person, an identity that belongs to nobody else, and
messages that only the recipient can read. See it work: ace demo.

Pages of help about no command: exit-codes, environment, json, config.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
	a.addGlobalFlags(root)
	a.asGroup(root)
	return root
}

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
	g.IntVar(&f.width, "width", 0, "width of text in `COLUMNS` (default that of the terminal)")
	g.BoolVar(&f.utc, "utc", false, "show times in UTC")
	g.StringVar(&f.timeText, "time", "", "`STYLE` of times in text: rfc3339, unix or relative")
	g.DurationVar(&f.timeout, "timeout", defaultTimeout, "deadline for waiting on the network, 0 for none")
	g.BoolVar(&f.noInput, "no-input", false, "never ask")
	g.BoolVarP(&f.yes, "yes", "y", false, "answer yes to the command's question")
	g.StringVar(&f.passphrase.File, "passphrase-file", "", "`FILE` to read the passphrase from")
	g.IntVar(&f.passphrase.fd, "passphrase-fd", -1, "file descriptor `N` to read the passphrase from")
	g.StringVar(&f.passphrase.shell, "passphrase-command", "", "`COMMAND` that prints the passphrase")
	g.BoolVar(&f.allowLoopback, "allow-loopback", false, "allow relays at http://localhost (development only)")
	g.Lookup("passphrase-fd").DefValue = "0" // keeps "-1" out of help
}

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) error {
	a.command = "ace"
	for _, arg := range args { // errors before the flags are parsed know the format as well
		if arg == "--json" {
			a.flags.json = true
		}
		if arg == "--" {
			break
		}
	}
	root := a.root(args)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// leaf completes a command that does something: how many arguments it takes
// (most < 0: any number), what it answers with (one value of each type; none
// for a command whose answer is no JSON) and what it does.
func (a *app) leaf(c *cobra.Command, least, most int, answers []any, do func(ctx context.Context, args []string) error) *cobra.Command {
	c.Args = cobra.ArbitraryArgs // counted below: --json-schema needs none
	c.DisableFlagsInUseLine = true
	a.answers[c] = answers
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.command = cmd.CommandPath()
		if err := a.prepare(cmd); err != nil {
			return err
		}
		if a.flags.schema {
			return a.printSchema(answers)
		}
		if len(a.flags.fields) == 1 && a.flags.fields[0] == "help" {
			return a.printFields(answers)
		}
		if len(args) < least || most >= 0 && len(args) > most {
			return hintf(usagef("wrong number of arguments: %d", len(args)), "usage: %s", cmd.UseLine())
		}
		return do(cmd.Context(), args)
	}
	return c
}

// group makes a command that only holds others.
func (a *app) group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	a.asGroup(c)
	return c
}

// asGroup makes a command of others fail when none of them is named: a script
// must not take help for success.
func (a *app) asGroup(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.command = cmd.CommandPath()
		if len(args) > 0 {
			return a.unknownCommand(cmd, args[0])
		}
		if err := a.prepare(cmd); err != nil {
			return err
		}
		if !cmd.HasParent() && !a.flags.json {
			return cmd.Help()
		}
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return hintf(usagef("%s needs a command", cmd.CommandPath()), "one of %s", strings.Join(names, ", "))
	}
}

func (a *app) unknownCommand(parent *cobra.Command, name string) error {
	err := usagef("%s has no command %q", parent.CommandPath(), name)
	if !parent.HasParent() {
		parent = a.root(nil)
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		return hintf(err, "did you mean %s %s?", parent.CommandPath(), strings.Join(near, " or "))
	}
	return hintf(err, "%s --help lists the commands", parent.CommandPath())
}

// prepare completes the global options from the environment and the
// configuration, and checks them.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := a.readEnv(cmd); err != nil {
		return err
	}
	f := &a.flags
	if f.jq != "" || len(f.fields) > 0 {
		f.json = true
	}
	if err := a.readConfig(cmd); err != nil {
		return err
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
	return a.compileQuery()
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

// interactive reports whether somebody can be asked.
func (a *app) interactive() bool {
	return a.io.InTTY && a.io.ErrTTY && !a.flags.noInput && !a.flags.json
}

// errDeadline is the end of --timeout while the work goes on.
var errDeadline = &statusError{exitDeadline, codeDeadline, errors.New("the deadline passed")}
