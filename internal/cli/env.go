package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/internal/handler"
)

// actions are the global options that have to be typed: they have no variable
// in the environment.
var actions = [...]string{"help", "json", "json-schema", "yes"}

// hasEnv reports whether an option has a variable. The switches of a single
// command are actions as well.
func hasEnv(f *pflag.Flag, global bool) bool {
	if slices.Contains(actions[:], f.Name) || f.Annotations[ownEnvMark] != nil {
		return false
	}
	if slices.Contains(handler.Variables(), envName(f.Name)) {
		return false // ace in a handler must not take the message for its options
	}
	return global || f.NoOptDefVal == ""
}

// ownEnvMark marks an option with a variable of another name, which its command
// reads itself.
const ownEnvMark = "ace_own_env"

// ownEnv gives an option a variable of another name.
func ownEnv(f *pflag.FlagSet, option, variable string) {
	// The option was added just before, so this cannot fail.
	_ = f.SetAnnotation(option, ownEnvMark, []string{variable})
}

// envName returns the variable of an option: ACE_NO_INPUT for --no-input.
func envName(option string) string {
	return "ACE_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// readEnv sets the options that were not given from their variables. Where one
// source of a passphrase was given, the variables of the others do not count.
func (a *app) readEnv(cmd *cobra.Command) error {
	global := cmd.Root().PersistentFlags()
	sources := sourcesGiven(cmd)
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil || !hasEnv(f, global.Lookup(f.Name) != nil) {
			return
		}
		if whose, ok := sourceOption(f.Name); ok && len(sources[whose]) > 0 {
			return
		}
		text, ok := a.io.Getenv(envName(f.Name))
		if !ok || text == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, text); err != nil {
			failed = usagef("%s: %s", envName(f.Name), valueText(err))
		}
	})
	return failed
}
