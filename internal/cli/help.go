package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topic is a page of help that is about no command.
type topic struct {
	name, short string
	write       func(w io.Writer, root *cobra.Command)
}

func topics() []topic {
	return []topic{
		{"exit-codes", "The exit statuses", writeExitCodes},
		{"environment", "The variables of the environment", writeEnvironment},
		{"json", "What --json promises", writeJSONContract},
		{"config", "The configuration file", writeConfigHelp},
		{"audit-events", "The events of the audit log", writeAuditEvents},
		{"operations", "Running a relay for others", writeOperations},
	}
}

func newHelpCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "help [COMMAND | TOPIC]", Short: "Show help about a command or a topic"}
	for _, t := range topics() {
		c.ValidArgs = append(c.ValidArgs, t.name)
	}
	return a.leaf(c, 0, -1, nil, func(_ context.Context, args []string) error { return runHelp(a, c.Root(), args) })
}

func runHelp(a *app, root *cobra.Command, args []string) error {
	for _, t := range topics() {
		if len(args) == 1 && args[0] == t.name {
			t.write(a.io.Out, root)
			return nil
		}
	}
	c, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return a.unknownCommand(c, rest[0])
	}
	c.InitDefaultHelpFlag()
	return c.Help()
}

func writeExitCodes(w io.Writer, _ *cobra.Command) {
	fmt.Fprintln(w, "The tens digit of the exit status is the category: 1x it will not work like\nthis, 2x try again later, 3x something on this machine.")
	fmt.Fprintln(w)
	for _, row := range exitTable() {
		fmt.Fprintf(w, "%4d  %s\n", row.Status, row.Meaning)
		if len(row.Codes) > 0 {
			fmt.Fprintf(w, "      %s\n", joinCodes(row))
		}
	}
	fmt.Fprintln(w, "\nA stream (ace listen, ace relay serve) that a signal ends in good order exits\nwith 0. ace explain CODE says more about a code.")
}

func joinCodes(row exitStatus) string {
	var names []string
	for _, c := range row.Codes {
		names = append(names, string(c))
	}
	return strings.Join(names, " ")
}

// variable is a variable of the environment that is not that of an option.
type variable struct{ name, meaning string }

func variables() []variable {
	return []variable{
		{"ACE_PASSPHRASE", "the passphrase itself; the last resort. ace removes it from its environment when it reads it"},
		{"ACE_RELAY_CONFIG", "the configuration file of a relay that this machine runs"},
		{"ACE_RELAY_...", "a setting of that relay: its key, with _ for the point, as in ACE_RELAY_LIMITS_STREAMS"},
		{"ACE_MESSAGE_ID, ACE_FROM, ...", "of a message, for the command of ace listen --exec; no options have these"},
		{"ACE_FORCE_TTY", "treat standard output as a terminal of that many columns"},
		{"NO_COLOR", "no colour, unless --color asks for it"},
		{"CLICOLOR_FORCE", "colour also where no terminal is, unless NO_COLOR or --color say otherwise"},
		{"XDG_DATA_HOME", "where ace keeps its state: the folder ace in it"},
		{"XDG_CONFIG_HOME", "where ace looks for ace/config.toml"},
		{"XDG_RUNTIME_DIR", "where a development relay leaves its address"},
	}
}

func writeEnvironment(w io.Writer, root *cobra.Command) {
	fmt.Fprintln(w, "Each option that takes a value has a variable: ACE_ and its name, with _ for -.\nAn option that is given wins over its variable, which wins over the\nconfiguration. Switches of a single command, --yes and --json have none.")
	fmt.Fprintln(w)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if hasEnv(f, true) {
			fmt.Fprintf(w, "  %-24s  %s\n", envName(f.Name), strings.ReplaceAll(f.Usage, "`", ""))
		}
	})
	for _, v := range variables() {
		fmt.Fprintf(w, "  %-24s  %s\n", v.name, v.meaning)
	}
}

func writeJSONContract(w io.Writer, _ *cobra.Command) {
	fmt.Fprint(w, `With --json the answer is one JSON document on one line, without a wrapper; ace
listen, ace audit --follow and commands with several targets print one line for
each event or target. Members may be added; a member never changes its name or
type. A member whose name ends in _at is a time in Unix seconds. What a peer or a
relay chose freely is inside a member named untrusted.

  --fields a,b      keeps these members; --fields help lists them
  --jq EXPR         filters the answer, strings unquoted
  --json-schema     prints the JSON Schema of the command's answer instead

An error is one line on standard error, {"error":{...}}, with code, category
(permanent, transient or local), retryable, exit, message and hint, and where
they apply relay, retry_after_s, remote_code, holder and report_id. A stream
also ends with it on standard output, as the event "error". A warning is
{"warning":"..."}.

The events of ace listen: ready, message, handled, handler_failed, receipt,
contact_request, contact, connection, upkeep, end, error. What the command of
--exec prints is on standard error, {"output":{...}} for each line.
`)
}

func writeConfigHelp(w io.Writer, _ *cobra.Command) {
	fmt.Fprint(w, `The configuration is TOML. Files are read from /etc/ace/config.toml, then
ace/config.toml in $XDG_CONFIG_HOME (~/.config), then the file of --config; a
later one wins key by key. An unknown key is an error.

  default_identity = "ops"           # in place of --as
  relay = "https://relay.example"    # home relay of new identities
  timeout = "30s"                    # in place of --timeout
  time = "rfc3339"                   # in place of --time
  utc = true                         # in place of --utc
  color = "auto"                     # in place of --color

  [passphrase]                       # where the passphrase comes from
  source = "command"                 # prompt, file, command or none
  command = ["pass", "show", "ace"]  # or: file = "/path"
  timeout = "5s"                     # of the command

  [accept]                           # contact requests accepted by themselves
  "ace:text:1" = { digest = "..." }  # ace profile list shows the digest

  [audit]                            # how much of the audit log is kept
  age = "90d"
  rows = 100000

  [policy]                           # what may leave, and what is shown
  approval_ttl = "24h"               # how long a held message waits for you
  rules = [                          # the first that matches decides
    { type = "ace:text:1", peer = "bob", do = "allow" },
    { type = "ace:commerce:*", do = "ask" },
    { peer = "@mallory@relay.example", do = "deny" },
    { direction = "in", peer = "@mallory@relay.example", do = "deny" },
  ]

  [identities.ops]                   # for one identity
  relay = "https://relay.example"    # home relay
  passphrase = { source = "file", file = "/path" }
  policy = { rules = [] }            # in place of the one above

A rule is about messages to a peer, or with direction = "in" about those of one;
without type about every type, without peer about everybody. What no rule matches
is allowed. Rules judge a message when it is queued or comes, not later.

  allow  lets the message through
  ask    holds a message to a peer: it is pending_approval, and nothing of it is
         encrypted, signed or handed to a relay before ace outbox approve. Without
         an answer for approval_ttl it is rejected.
  deny   refuses to queue a message to a peer. A message of a peer is kept in
         quarantine: its sender has a receipt, and your inbox has it when ace
         quarantine release says so.

A rule with an unknown key, action or type, or about a peer whom nobody knows here
by that name, is an error, and nothing goes out or comes in until it is corrected.
A running ace listen goes by the file as it was when it started.
`)
}
