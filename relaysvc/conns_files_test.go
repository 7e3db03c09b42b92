package relaysvc_test

import (
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc"
)

// TestConnectionsLeaveFilesToTheStore, which ends the relay when it can open
// none: nobody may do that by connecting often.
func TestConnectionsLeaveFilesToTheStore(t *testing.T) {
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	fewer := before
	fewer.Cur = 1000
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &fewer))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })

	r := start(t, func(c *relaysvc.Config) { c.Limits.Connections = 5000 })
	r.scrape().want("connections_limit", 750)
	must(t, r.server.Reload(relaysvc.Limits{Connections: 600}))
	r.scrape().want("connections_limit", 600)
	must(t, r.server.Reload(relaysvc.Limits{Connections: 5000}))
	r.scrape().want("connections_limit", 750)
}
