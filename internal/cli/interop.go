package cli

import (
	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/internal/interop"
)

// newInteropCmd mounts the driver of the interop matrix. It has rules of its
// own (interop#driver-contract): no home, configuration or environment, and
// exit statuses that are not those of the table.
func newInteropCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "interop",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if status := interop.Main(args, a.io.In, a.io.Out, a.io.Err); status != 0 {
				return &reported{status}
			}
			return nil
		},
	}
}
