package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newIdentityNewCmd(a *app) *cobra.Command {
	o := initOptions{noPublish: true}
	c := &cobra.Command{
		Use:   "new NAME [--relay URL] [flags]",
		Short: "Create an identity without publishing it",
		Long: `Create an identity as ace init does, and contact no relay. An identity is never
replaced, and a destroyed one keeps its name. Publish it with ace publish.`,
		Example: "  ace identity new work --relay https://relay.example",
	}
	o.addTo(c.Flags())
	return a.leaf(c, 1, 1, []any{initAnswer{}}, func(ctx context.Context, args []string) error {
		o.name = args[0]
		return runInit(ctx, a, o)
	})
}
