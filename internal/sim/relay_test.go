package sim

import (
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/ace-toolkit/ace/relaysvc"
)

// relay is a real relay, reached through its handler.
type relay struct {
	w       *world
	n       int
	dir     string
	skew    int64
	server  *relaysvc.Server
	handler http.Handler
}

func (r *relay) name() string { return fmt.Sprintf("relay%d", r.n) }
func (r *relay) host() string { return r.name() + ".example" }
func (r *relay) url() string  { return "https://" + r.host() }

func (r *relay) start() {
	server, err := relaysvc.New(relaysvc.Config{
		PublicURL: r.url(), DBPath: filepath.Join(r.dir, "relay.db"),
		Limits: relaysvc.Limits{DiskFloor: 1},
		Clock:  func() int64 { return r.w.now + r.skew },
	})
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.server, r.handler = server, server.Handler()
}

func (r *relay) stop() {
	r.w.endStreams(r)
	if r.server == nil {
		return // it was never started
	}
	if err := r.server.Close(); err != nil {
		r.w.t.Fatal(err)
	}
}

func (r *relay) restart() {
	r.stop()
	r.start()
}
