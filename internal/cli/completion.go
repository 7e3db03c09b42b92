package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// shells writes the completion script for each shell.
func shells(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}
}

func newCompletionCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print the completion script for a shell",
		Example:   "  ace completion bash > ~/.local/share/bash-completion/completions/ace",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
	}
	return a.leaf(c, 1, 1, nil, func(_ context.Context, args []string) error {
		write, ok := shells(c.Root())[args[0]]
		if !ok {
			return usagef("no completion for %q: bash, zsh, fish or powershell", args[0])
		}
		return write(a.io.Out)
	})
}
