package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is one run of the program.
type app struct {
	io    IO
	flags flags
	conf  config
	// confFaults are those of the configuration that the command tolerates.
	confFaults []error
	tracer     *tracer // nil without --trace
	heard      func()  // is told that listening goes on, nil: nobody
	command    string  // the path of the running command, "ace contact list"
	// answers has, for each command, a value of each type it answers with.
	answers map[*cobra.Command][]any
}

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
		{groupIdentity, []string{"unpublish"}, newUnpublishCmd},
		{groupIdentity, []string{"card"}, newCardCmd},
		{groupPeople, []string{"find"}, newFindCmd},
		{groupPeople, []string{"lookup"}, newLookupCmd},
		{groupPeople, []string{"connect"}, newConnectCmd},
		{groupPeople, []string{"contact"}, newContactCmd},
		{groupPeople, []string{"why"}, newWhyCmd},
		{groupMessages, []string{"send"}, newSendCmd},
		{groupMessages, []string{"pull"}, newPullCmd},
		{groupMessages, []string{"inbox"}, newInboxCmd},
		{groupMessages, []string{"read"}, newReadCmd},
		{groupMessages, []string{"ack"}, newAckCmd},
		{groupMessages, []string{"unack"}, newUnackCmd},
		{groupMessages, []string{"listen"}, newListenCmd},
		{groupMessages, []string{"wait"}, newWaitCmd},
		{groupMessages, []string{"maintain"}, newMaintainCmd},
		{groupMessages, []string{"wake"}, newWakeCmd},
		{groupMessages, []string{"outbox"}, newOutboxCmd},
		{groupMessages, []string{"trace"}, newTraceCmd},
		{groupMessages, []string{"thread"}, newThreadCmd},
		{groupMessages, []string{"quarantine"}, newQuarantineCmd},
		{groupInspect, []string{"doctor"}, newDoctorCmd},
		{groupInspect, []string{"explain"}, newExplainCmd},
		{groupInspect, []string{"audit"}, newAuditCmd},
		{groupInspect, []string{"profile"}, newProfileCmd},
		{groupInspect, []string{"inspect"}, newInspectCmd},
		{groupInspect, []string{"packet"}, newPacketCmd},
		{groupInspect, []string{"kel"}, newKELCmd},
		{groupInspect, []string{"descriptor"}, newDescriptorCmd},
		{groupInspect, []string{"permit"}, newPermitCmd},
		{groupInspect, []string{"delegation"}, newDelegationCmd},
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
	a.completeOption(root, "as", identityValues)
	a.completeOption(root, "color", fixed("auto", "always", "never"))
	a.completeOption(root, "time", fixed("rfc3339", "unix", "relative"))
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

Pages of help about no command: exit-codes, environment, json, config,
audit-events, operations.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.SetFlagErrorFunc(a.flagError)
	root.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
	a.addGlobalFlags(root)
	a.asGroup(root)
	return root
}

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) error {
	a.command = "ace"
	root := a.root(args)
	for _, arg := range args { // errors before the flags are parsed know the format as well
		if arg == "--json" || strings.HasPrefix(arg, "--jq") || strings.HasPrefix(arg, "--fields") {
			a.flags.json = true
		}
		if arg == "--" {
			break
		}
	}
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
	if most == 0 {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.command = cmd.CommandPath()
		if err := a.prepare(cmd); err != nil {
			return err
		}
		switch {
		case len(answers) == 0 && (a.flags.json || a.flags.schema):
			return usagef("%s does not answer with JSON", a.command)
		case a.flags.schema:
			return a.printSchema(answers)
		case len(a.flags.fields) == 1 && a.flags.fields[0] == "help":
			return a.printFields(answers)
		}
		if err := a.checkFields(answers); err != nil {
			return err
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
			if !sub.Hidden {
				names = append(names, sub.Name())
			}
		}
		return hintf(usagef("%s needs a command", cmd.CommandPath()), "one of %s", strings.Join(names, ", "))
	}
}

// flagError is the error of options that cobra does not take.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	a.command = cmd.CommandPath()
	usage := usagef("%s", optionText(err))
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
		return hintf(usage, "did you mean --%s?", near)
	}
	return hintf(usage, "%s --help lists the options", a.command)
}

func (a *app) unknownCommand(parent *cobra.Command, name string) error {
	err := usagef("%s has no command %q", parent.CommandPath(), name)
	if !parent.HasParent() {
		parent = (&app{io: a.io}).root(nil) // the options of this run stay
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		return hintf(err, "did you mean %s %s?", parent.CommandPath(), strings.Join(near, " or "))
	}
	return hintf(err, "%s --help lists the commands", parent.CommandPath())
}
