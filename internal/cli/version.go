package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/wire"
)

func newVersionCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Show the version of the program and of the protocol"}
	return a.leaf(c, 0, 0, []any{versionAnswer{}}, func(context.Context, []string) error { return a.print(version()) })
}

type versionAnswer struct {
	Version  string  `json:"version"`
	Revision *string `json:"revision"`
	Protocol string  `json:"protocol"`
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

func (r versionAnswer) text(p *page) {
	p.line("ace %s (ACE protocol %s, %s, %s)", r.Version, r.Protocol, r.Go, r.Platform)
}

func version() versionAnswer {
	r := versionAnswer{Version: "devel", Protocol: wire.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		r.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			r.Revision = orNull(s.Value)
		}
	}
	return r
}
