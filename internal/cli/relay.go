package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

type relayOptions struct {
	settings    relaySettings
	printConfig bool
	developer   devOptions
}

func newRelayCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "relay", Short: "Run a relay"}, append(relayAdminCmds(a),
		newRelayServeCmd(a), newRelayCheckConfigCmd(a), newRelayUnitCmd(a), newRelayBenchCmd(a))...)
}

func newRelayServeCmd(a *app) *cobra.Command {
	var o relayOptions
	c := &cobra.Command{
		Use:   "serve (--dev | --public-url URL) [flags]",
		Short: "Run a relay until a signal ends it",
		Long: `Run a relay until a signal ends it. The first line on standard output says when
it is ready and where, as JSON. The first start makes all it needs; the next
ones find it.

SIGINT and SIGTERM drain: the relay says that it is not ready, asks the clients
of streams to connect again and lets requests in progress finish. A second one
ends it at once. SIGHUP reads the configuration and the certificate anew,
SIGUSR1 turns the level debug of the log on and off. A development relay ends
with its terminal, by SIGHUP.

A relay for others speaks TLS with --tls-cert and --tls-key, or plain HTTP to a
reverse proxy that does. Its public URL is what clients sign for. Each setting
can also stand in the file of --config and in a variable ACE_RELAY_ and its
key; ace relay check-config --print lists them with their values.

` + devHelp,
		Example: `  ace relay serve --dev --echo
  ace relay serve --dev --exec -- npm test
  ace relay serve --public-url https://relay.example --data /var/lib/ace-relay --trusted-proxy 127.0.0.1/32
  ace relay serve --config /etc/ace/relay.toml`,
	}
	c.Flags().BoolVar(&o.settings.dev, "dev", false, "run a development relay on this machine")
	c.Flags().BoolVar(&o.printConfig, "print-config", false, "print the settings in effect as TOML and do nothing else")
	o.settings.addTo(c.Flags())
	addDevFlags(c.Flags(), &o.developer)
	return a.leaf(c, 0, -1, []any{relayReady{}}, func(ctx context.Context, args []string) error {
		if err := o.developer.check(args, c.ArgsLenAtDash(), o.settings.dev); err != nil {
			return err
		}
		return runRelayServe(ctx, a, &o)
	})
}

// relayReady is the one line a relay prints, whatever the options.
type relayReady struct {
	Event string `json:"event"`
	URL   string `json:"url"`
	PID   int    `json:"pid"`
	Data  string `json:"data"`
	Dev   bool   `json:"dev"`
	Admin string `json:"admin"` // path of the admin socket, "" for none
	// What a development relay was asked for.
	Echo   string        `json:"echo,omitempty"` // ACE ID
	Seeded *seededAnswer `json:"seeded,omitempty"`
	Chaos  *chaosAnswer  `json:"chaos,omitempty"`
}

// located returns the line with paths that are the same from every folder.
func (r relayReady) located() relayReady {
	for _, path := range []*string{&r.Data, &r.Admin} {
		if whole, err := filepath.Abs(*path); err == nil && *path != "" {
			*path = whole
		}
	}
	return r
}

func runRelayServe(ctx context.Context, a *app, o *relayOptions) (err error) {
	dev := o.settings.dev
	loaded, problems := o.settings.load(a)
	for _, p := range loaded.Strays() {
		a.warn("%s", p)
	}
	if err := relayProblems(problems); err != nil {
		if !dev {
			err = withHint(err, "ace relay serve --dev runs a relay for development")
		}
		return err
	}
	if o.printConfig && a.flags.json {
		return hintf(usagef("--print-config prints TOML"), "ace relay check-config --print --json has the same as JSON")
	}
	if o.printConfig {
		_, err := fmt.Fprint(a.io.Out, loaded.TOML())
		return err
	}
	level := a.relayLogLevel(loaded, dev)
	config := a.relayConfig(loaded)
	config.Development = dev
	if dev && len(config.WakeGateways) == 0 {
		config.WakeGateways = []string{relaysvc.LoopbackGateways}
	}
	config.Log = a.relayLog(loaded.LogFormat, level)
	reload := &relayReload{
		app: a, settings: &o.settings, started: loaded, current: loaded, level: level, usual: level.Level(), log: slog.New(config.Log),
	}
	defer func() { err = hintHolder(err) }()
	if dev {
		return runDevRelay(ctx, a, o.developer, config, reload)
	}
	socket, err := socketPath(loaded.Data, loaded.AdminSocket)
	if err != nil {
		return err
	}
	a.io.catchSignals()
	server, err := relaysvc.New(config)
	if fault.CodeOf(err) == fault.InvalidArgument {
		err = usagef("%v", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	admin, err := startAdmin(ctx, server, loaded.Data, socket, config.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.stop()) }()
	ln, err := a.relayListener(server, loaded)
	if err != nil {
		return err
	}
	ready := relayReady{Event: "ready", URL: config.PublicURL, PID: os.Getpid(), Data: loaded.Data, Admin: admin.socket}
	reload.server = server
	return a.serve(ctx, server, ln, ready.located(), reload)
}

// hintHolder adds to the error lock_busy how to reach and end the relay that has
// the store.
func hintHolder(err error) error {
	var held *fault.Error
	if fault.CodeOf(err) != fault.LockBusy || !errors.As(err, &held) || held.Holder == nil {
		return err
	}
	return withHint(err, "ace relay status asks it; ace relay drain, or kill %d, ends it", held.Holder.PID)
}

// serve answers until ctx ends, and tells whoever waits for it how that goes.
func (a *app) serve(ctx context.Context, server *relaysvc.Server, ln net.Listener, ready relayReady, reload *relayReload) error {
	// Whoever reads the ready line may send a signal at once.
	signals, unsubscribe := reload.subscribe()
	defer unsubscribe()
	if err := a.printJSON(ready); err != nil {
		ln.Close()
		return err
	}
	a.say("relay %s is ready; Ctrl-C ends it", ready.URL)
	if reload.started.Exposed() {
		a.warn("others reach %s over plain HTTP: set --tls-cert and --tls-key, or --trusted-proxy when a proxy does TLS", reload.started.Listen)
	}
	manager := a.systemd()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks.Go(func() { reload.watch(running, signals) })
	tasks.Go(func() { manager.live(running, server.Probe) })
	manager.tell("READY=1")
	tasks.Go(func() { manager.announceEnd(server.Draining(), running.Done()) })
	if err := server.Serve(ctx, ln); err != nil {
		return fault.Wrapf(fault.StorageFailed, err, "relay")
	}
	a.say("relay %s has drained", ready.URL)
	return errDrained
}

// relayListener opens the listeners of a relay, or takes those that the service
// manager opened, and gives the one for operations to the server.
func (a *app) relayListener(server *relaysvc.Server, l *relayconf.Loaded) (net.Listener, error) {
	ln, ops, err := a.inheritedListeners()
	if err != nil {
		return nil, err
	}
	if ln == nil {
		if ln, err = net.Listen("tcp", l.Listen); err != nil {
			closeAll(ops)
			return nil, usagef("listen: %v", err)
		}
	}
	if ops == nil && l.OpsListen != "" {
		if ops, err = net.Listen("tcp", l.OpsListen); err != nil {
			ln.Close()
			return nil, usagef("ops_listen: %v", err)
		}
	}
	if ops != nil {
		server.MoveOperations(ops)
	}
	return ln, nil
}

// relayLog returns what takes the log of a relay.
func (a *app) relayLog(format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == relayconf.FormatJSON {
		return slog.NewJSONHandler(a.io.Err, options)
	}
	return slog.NewTextHandler(a.io.Err, options)
}

// relayLogLevel returns the least level that is logged. Where no setting names
// one, --quiet and --verbose do, and a development relay logs less.
func (a *app) relayLogLevel(l *relayconf.Loaded, dev bool) *slog.LevelVar {
	level := new(slog.LevelVar)
	level.Set(l.LogLevel)
	switch {
	case l.Origin("log.level") != relayconf.FromDefault:
	case a.flags.quiet:
		level.Set(slog.LevelError)
	case dev && a.flags.verbose == 0:
		level.Set(slog.LevelWarn)
	case !dev && a.flags.verbose > 0:
		level.Set(slog.LevelDebug)
	}
	return level
}
