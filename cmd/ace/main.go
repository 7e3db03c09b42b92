// Command ace runs post-quantum agent identities, their private messages and
// the relays that carry them. See `ace help`.
package main

import (
	"os"

	"github.com/ace-toolkit/ace/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.System())) }
