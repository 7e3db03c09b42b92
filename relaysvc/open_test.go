package relaysvc_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// abroad is a listener on loopback that says it listens on another address.
type abroad struct{ net.Listener }

func (abroad) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8420} }

// A development relay listens beyond loopback only when it is told to.
func TestOpenDevelopmentRelay(t *testing.T) {
	for _, open := range []bool{false, true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		url, err := relaysvc.LoopbackURL(ln.Addr())
		must(t, err)
		server, err := relaysvc.New(relaysvc.Config{
			PublicURL: url, Development: true, Open: open, DBPath: filepath.Join(t.TempDir(), "data", "relay.db"),
		})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- server.Serve(ctx, abroad{ln}) }()
		if open {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get(url + "/health")
			must(t, err)
			resp.Body.Close()
			stop()
			must(t, <-served)
		} else if err := <-served; fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("it listens on another address: %v", err)
		}
		stop()
		must(t, server.Close())
	}
}
