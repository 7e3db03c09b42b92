package cli

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

type relayOptions struct {
	dev                     bool
	listen, publicURL, data string
	proxies                 []string
}

func newRelayCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "relay", Short: "Run a relay"}, newRelayServeCmd(a))
}

func newRelayServeCmd(a *app) *cobra.Command {
	var o relayOptions
	c := &cobra.Command{
		Use:   "serve (--dev | --public-url URL) [flags]",
		Short: "Run a relay until a signal ends it",
		Long: `Run a relay until a signal ends it. The first line on standard output says when
it is ready and where, as JSON. SIGINT and SIGTERM let requests in progress
finish and ask the clients of streams to connect again.

With --dev it listens on loopback, at a free port unless --listen gives one,
keeps its store in a temporary folder that goes with it unless --data names
one, and leaves its address where --relay dev finds it.

A relay for others speaks plain HTTP to a reverse proxy that does TLS. Its
public URL is what clients sign for.`,
		Example: `  ace relay serve --dev
  ace relay serve --public-url https://relay.example --data /var/lib/ace-relay --trusted-proxy 127.0.0.1/32`,
	}
	f := c.Flags()
	f.BoolVar(&o.dev, "dev", false, "run a development relay on this machine")
	f.StringVar(&o.listen, "listen", "", "`ADDRESS` to listen on (default 127.0.0.1:8420, with --dev a free port)")
	f.StringVar(&o.publicURL, "public-url", "", "`URL` under which clients reach the relay")
	f.StringVar(&o.data, "data", "", "`DIR` of the store (default relay in the folder of all state)")
	f.StringSliceVar(&o.proxies, "trusted-proxy", nil, "addresses of reverse proxies to believe about clients, as `CIDR`")
	return a.leaf(c, 0, 0, []any{relayReady{}}, func(ctx context.Context, _ []string) error { return runRelayServe(ctx, a, o) })
}

// relayReady is the one line a relay prints, whatever the options.
type relayReady struct {
	Event string `json:"event"`
	URL   string `json:"url"`
	PID   int    `json:"pid"`
	Data  string `json:"data"`
	Dev   bool   `json:"dev"`
}

func runRelayServe(ctx context.Context, a *app, o relayOptions) (err error) {
	a.io.catchSignals()
	config, err := a.relayConfig(&o)
	if err != nil {
		return err
	}
	if o.dev && o.data == "" {
		if o.data, err = os.MkdirTemp("", "ace-relay-"); err != nil {
			return fault.Wrap(fault.StorageFailed, err)
		}
		defer os.RemoveAll(o.data)
	}
	config.DBPath = filepath.Join(o.data, "relay.db")
	server, err := relaysvc.New(config)
	if err != nil {
		return err
	}
	defer func() {
		if failed := server.Close(); failed != nil {
			err = failed
		}
	}()
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return usagef("--listen: %v", err)
	}
	ready := relayReady{Event: "ready", URL: config.PublicURL, PID: os.Getpid(), Data: o.data, Dev: o.dev}
	if o.dev {
		withdraw, err := a.announce(ln, &ready)
		if err != nil {
			ln.Close()
			return err
		}
		defer withdraw()
	}
	return a.serve(ctx, server, ln, ready)
}

func (a *app) serve(ctx context.Context, server *relaysvc.Server, ln net.Listener, ready relayReady) error {
	if err := a.printJSON(ready); err != nil {
		ln.Close()
		return err
	}
	a.say("relay %s is ready; Ctrl-C ends it", ready.URL)
	if err := server.Serve(ctx, ln); err != nil {
		return fault.Wrapf(fault.StorageFailed, err, "relay")
	}
	a.say("relay %s has drained", ready.URL)
	return errDrained
}

// announce finds the URL of a development relay and leaves it where --relay
// dev looks.
func (a *app) announce(ln net.Listener, ready *relayReady) (withdraw func(), err error) {
	url, err := relaysvc.LoopbackURL(ln.Addr())
	if err != nil {
		return nil, usagef("--listen: %v", err)
	}
	if ready.URL == "" {
		ready.URL = url
	}
	return a.announceDevRelay(ready.URL)
}

func (a *app) relayConfig(o *relayOptions) (relaysvc.Config, error) {
	c := relaysvc.Config{
		PublicURL: o.publicURL, Development: o.dev, Clock: a.io.Now,
		Log: slog.NewTextHandler(a.io.Err, &slog.HandlerOptions{Level: a.logLevel()}),
	}
	for _, text := range o.proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return c, usagef("--trusted-proxy: %v", err)
		}
		c.TrustedProxies = append(c.TrustedProxies, prefix)
	}
	if err := o.checkPublicURL(); err != nil {
		return c, err
	}
	c.PublicURL = o.publicURL
	if o.dev {
		if o.listen == "" {
			o.listen = "127.0.0.1:0"
		}
		return c, nil
	}
	if o.listen == "" {
		o.listen = "127.0.0.1:8420"
	}
	if o.data == "" {
		o.data = filepath.Join(a.dataDir(), "relay")
	}
	return c, nil
}

// checkPublicURL puts the public URL into its canonical form. Without one, a
// development relay takes that of its socket.
func (o *relayOptions) checkPublicURL() error {
	policy := wire.Production
	if o.dev {
		policy = wire.Development
	}
	if o.publicURL == "" {
		if o.dev {
			return nil
		}
		return hintf(usagef("--public-url is required: it is what clients sign for"), "ace relay serve --dev runs a relay for development")
	}
	url, err := wire.NormalizeRelayURL(o.publicURL)
	if err == nil {
		err = wire.CheckRelayURL(url, policy)
	}
	if err != nil {
		return usagef("--public-url %q: %v", o.publicURL, err)
	}
	o.publicURL = url
	return nil
}

func (a *app) logLevel() slog.Level {
	switch {
	case a.flags.quiet:
		return slog.LevelError
	case a.flags.verbose > 0:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}
