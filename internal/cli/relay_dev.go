package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/echo"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

// devOptions are those of a throwaway relay, besides the ones of any relay.
type devOptions struct {
	exec           bool
	command        []string // of --exec, what stands after --
	exitWithParent bool
	readyFile      string
	echo           bool
	seed           string // a file, - for standard input
	chaos          string
	open           bool
}

func addDevFlags(f *pflag.FlagSet, o *devOptions) {
	f.BoolVar(&o.exec, "exec", false, "with --dev: run the command after -- and end with it")
	f.BoolVar(&o.exitWithParent, "exit-with-parent", false, "with --dev: end when the process that started the relay does")
	f.StringVar(&o.readyFile, "ready-file", "", "with --dev: `FILE` that holds the ready line while the relay runs")
	f.BoolVar(&o.echo, "echo", false, "with --dev: run an agent that answers every text")
	f.StringVar(&o.seed, "seed", "", "with --dev: `FILE` of published agents and cards to begin with, - for standard input")
	f.StringVar(&o.chaos, "chaos", "", "with --dev: `FAULTS` of sends and streams, as in drop=0.1,dup=0.1,delay=2s,error=0.05,seed=42")
	f.BoolVar(&o.open, "open", false, "with --dev: allow an address that other machines reach")
}

// devHelp is the part of the help text about a throwaway relay.
const devHelp = `With --dev it listens on loopback, at a free port unless --listen gives one,
keeps its store in a temporary folder that goes with it unless --data names
one, and leaves its address where --relay dev finds it. For developers:

--exec -- COMMAND runs a command once the relay is ready, with ACE_RELAY and
ACE_ALLOW_LOOPBACK set, passes signals on to it, and ends with it and with its
exit status. Standard output is the command's alone; the ready line is in
--ready-file. No shell is involved: --exec -- sh -c 'a && b' asks for one.

--exit-with-parent ends the relay when the process that started it ends, or
closes the pipe that is the relay's standard input.

--echo adds an agent that accepts contact for ace:text:1 and answers every text
with "echo: " and the same text. ace init --relay dev names it echo.

--seed takes published agents and card bundles, one JSON object a line, as
GET /v1/descriptor/ID and GET /v1/card/ID of a relay return them. Each is
verified as on publication, and its identity counts as registered. One that
names another relay is served all the same, and its peers then go there. A line
that fails ends the start; with --data, the lines before it stay.

--chaos plays the faults of a network, each with a probability: drop breaks the
connection of a send, before or after the packet is queued, or a stream; dup
sends an entry of a stream twice; error refuses with 429, 500 or 503; delay
waits up to so long. The same seed plays the same faults. What the relay
accepts, it keeps.

--open allows to listen beyond loopback, as in a container. The URL is that of
loopback unless --public-url gives one.`

// check refuses options that do not belong together, and takes the command of
// --exec from the arguments; dash is where "--" stands among them, or -1.
func (o *devOptions) check(args []string, dash int, dev bool) error {
	if name := o.given(); name != "" && !dev {
		return usagef("--%s goes with --dev", name)
	}
	return o.takeCommand(args, dash)
}

// given returns the name of an option that was given, or "".
func (o *devOptions) given() string {
	for _, option := range []struct {
		name string
		is   bool
	}{
		{"exec", o.exec}, {"exit-with-parent", o.exitWithParent}, {"ready-file", o.readyFile != ""}, {"echo", o.echo},
		{"seed", o.seed != ""}, {"chaos", o.chaos != ""}, {"open", o.open},
	} {
		if option.is {
			return option.name
		}
	}
	return ""
}

// devRun is one run of a throwaway relay.
type devRun struct {
	*app
	o       devOptions
	config  relaysvc.Config
	loaded  *relayconf.Loaded
	ready   relayReady
	ln      net.Listener
	reload  *relayReload
	signals chan os.Signal // for the command of --exec
}

// runDevRelay is ace relay serve --dev. The settings name an address to listen
// on, and may leave the folder of the store and the public URL open.
func runDevRelay(ctx context.Context, a *app, o devOptions, c relaysvc.Config, r *relayReload) error {
	l := r.started
	d := &devRun{app: a, o: o, config: c, loaded: l, reload: r, ready: relayReady{Event: "ready", PID: os.Getpid(), Data: l.Data, Dev: true}}
	if err := d.prepare(); err != nil {
		return err
	}
	ctx, stop := d.until(ctx)
	defer stop()
	if err := d.listen(); err != nil {
		return err
	}
	defer d.ln.Close()
	remove, err := d.prepareData()
	defer remove()
	if err != nil {
		return err
	}
	return d.withServer(ctx)
}

// prepare refuses, before anything is made, what could not work.
func (d *devRun) prepare() (err error) {
	if d.o.echo && d.config.PublicURL != "" && !onLoopback(d.config.PublicURL) {
		return usagef("--echo is for a relay on loopback, not at %s", d.config.PublicURL)
	}
	if err := checkReadyFile(d.o.readyFile); err != nil {
		return err
	}
	if d.o.chaos == "" {
		return nil
	}
	if d.config.Chaos, err = parseChaos(d.o.chaos); err == nil {
		d.ready.Chaos = describeChaos(d.config.Chaos)
	}
	return err
}

// until bounds ctx by the signals and by the life of the parent. Signals end
// the relay, or are for the command of --exec, with which the relay ends.
func (d *devRun) until(ctx context.Context) (context.Context, context.CancelFunc) {
	watchEnds := func() {}
	if d.o.exec {
		d.signals = make(chan os.Signal, 16)
		signal.Notify(d.signals, commandSignals()...)
	} else {
		d.io.catchSignals()
		watchEnds = d.watchReload(ctx)
	}
	ctx, hangup := d.untilHangup(ctx)
	stop := func() {}
	if d.o.exitWithParent {
		ctx, stop = d.endWithParent(ctx)
	}
	return ctx, func() {
		stop()
		hangup()
		watchEnds()
		if d.signals != nil {
			signal.Stop(d.signals)
		}
	}
}

// watchReload acts on the signals that change a relay until end is called.
func (d *devRun) watchReload(ctx context.Context) (end func()) {
	signals, unsubscribe := d.reload.subscribe()
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.reload.watch(ctx, signals) })
	return func() {
		stop()
		watch.Wait()
		unsubscribe()
	}
}

// untilHangup also bounds ctx by the life of the terminal, so that the temporary
// folder goes with the window. Who started the relay may want it to stay (nohup).
func (d *devRun) untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.o.exec || signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// listen opens the socket and settles the URL.
func (d *devRun) listen() (err error) {
	if d.ln, err = net.Listen("tcp", d.loaded.Listen); err != nil {
		// A relay that has the store as well is the whole reason.
		return cmp.Or(storeHeld(d.ready.Data, d.io.Now()), usagef("--listen: %v", err))
	}
	d.ready.URL, err = d.url()
	if err == nil && d.config.TLSCert != "" && !strings.HasPrefix(d.ready.URL, "https://") {
		err = hintf(usagef("--tls-cert: clients of %s speak plain HTTP", d.ready.URL), "give the name in the certificate as --public-url https://NAME")
	}
	if err != nil {
		d.ln.Close()
		return err
	}
	d.config.PublicURL, d.config.Open = d.ready.URL, d.o.open
	return nil
}

// url returns the public URL: the one that was given, or that of the socket.
func (d *devRun) url() (string, error) {
	url, err := relaysvc.LoopbackURL(d.ln.Addr())
	switch {
	case err == nil:
	case !d.o.open:
		return "", hintf(usagef("--listen: %v", err), "--open lets a development relay be reached from other machines")
	case d.config.PublicURL != "":
	default:
		if url, err = unspecifiedURL(d.ln.Addr()); err != nil {
			return "", err
		}
	}
	if d.config.PublicURL != "" {
		url = d.config.PublicURL
	}
	return url, nil
}

// unspecifiedURL returns the loopback URL of a socket on every address.
func unspecifiedURL(addr net.Addr) (string, error) {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil || !at.Addr().IsUnspecified() {
		return "", hintf(usagef("--listen: a client on %s needs a URL with TLS", addr), "give it as --public-url https://HOST")
	}
	return relaysvc.LoopbackURL(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(at.Port())})
}

// prepareData makes the temporary folder when no other is named.
func (d *devRun) prepareData() (remove func(), err error) {
	remove = func() {}
	if d.ready.Data == "" {
		if d.ready.Data, err = os.MkdirTemp("", devTempPrefix); err != nil {
			return remove, fault.Wrap(fault.StorageFailed, err)
		}
		remove = func() { removeData(d.ready.Data) }
		// Nobody needs what the process has open there and is about to leave.
		d.io.beforeExit(remove)
	}
	d.config.DBPath = filepath.Join(d.ready.Data, devDatabase)
	// A throwaway relay has to start wherever temporary files are, and can do
	// without a socket that nobody asked for.
	d.ready.Admin, err = socketPath(d.ready.Data, d.loaded.AdminSocket)
	if err != nil && d.loaded.AdminSocket == "" {
		d.warn("commands for operators do not reach this relay: %v", err)
		err = nil
	}
	return remove, err
}

// withServer opens the store, fills it, and serves until the end.
func (d *devRun) withServer(ctx context.Context) (err error) {
	server, err := relaysvc.New(d.config)
	if fault.CodeOf(err) == fault.InvalidArgument {
		err = usagef("%v", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if d.ready.Admin != "" {
		admin, failed := startAdmin(ctx, server, d.ready.Data, d.ready.Admin, d.config.Log)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, admin.stop()) }()
	}
	if err := d.moveOperations(server); err != nil {
		return err
	}
	if d.o.seed != "" {
		if err := d.plant(ctx, server); err != nil {
			return err
		}
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	using, release := context.WithCancelCause(ctx)
	defer release(nil)
	ended := make(chan error, 1)
	go func() {
		failed := server.Serve(serving, d.ln)
		release(failed) // also when it ends by itself
		ended <- failed
	}()
	status := d.use(using, server)
	stop()
	if err := <-ended; err != nil {
		return fault.Wrapf(fault.StorageFailed, err, "relay")
	}
	if errors.Is(status, errDrained) {
		d.say("relay %s has drained", d.ready.URL)
	}
	return status
}

// moveOperations opens the listener of --ops-listen.
func (d *devRun) moveOperations(server *relaysvc.Server) error {
	if d.loaded.OpsListen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", d.loaded.OpsListen)
	if err != nil {
		return usagef("--ops-listen: %v", err)
	}
	if _, err := relaysvc.LoopbackURL(ln.Addr()); err != nil && !d.o.open {
		ln.Close()
		return hintf(usagef("--ops-listen: %v", err), "--open lets a development relay be reached from other machines")
	}
	server.MoveOperations(ln)
	return nil
}

// use announces a relay that serves and waits for the end: of ctx, or of the
// command.
func (d *devRun) use(ctx context.Context, server *relaysvc.Server) error {
	if d.o.echo {
		dir := filepath.Join(d.ready.Data, "echo")
		os.RemoveAll(dir) // what a relay left here that was killed
		defer os.RemoveAll(dir)
		agent, err := echo.Start(ctx, echo.Config{Relay: d.ready.URL, Dir: dir, Clock: d.io.Now})
		if err != nil {
			return err
		}
		defer agent.Close()
		d.ready.Echo = agent.ACEID()
	}
	withdraw, err := d.announce()
	if err != nil {
		return err
	}
	defer withdraw()
	background, stop := d.background(ctx, server)
	defer func() { stop(); <-background }()
	if d.o.exec {
		d.say("relay %s is ready", d.ready.URL)
		return d.runCommand(ctx)
	}
	if err := d.printJSON(d.ready); err != nil {
		return err
	}
	d.say("relay %s is ready; Ctrl-C ends it", d.ready.URL)
	<-ctx.Done()
	return errDrained
}

// announce warns of what is out of the ordinary and says where the relay is.
func (d *devRun) announce() (withdraw func(), err error) {
	d.ready = d.ready.located()
	if d.o.open {
		d.banner()
	}
	if d.ready.Chaos != nil {
		d.warn("sends and streams fail on purpose: --chaos %s", d.ready.Chaos)
	}
	undo := []func(){}
	withdraw = func() {
		for _, f := range undo {
			f()
		}
	}
	if onLoopback(d.ready.URL) {
		forget, err := d.announceDevRelay(devRelay{URL: d.ready.URL, PID: d.ready.PID, Echo: d.ready.Echo, Data: d.ready.Data})
		if err != nil {
			return nil, err
		}
		undo = append(undo, forget)
	}
	if d.o.readyFile != "" {
		remove, err := d.writeReadyFile()
		if err != nil {
			withdraw()
			return nil, err
		}
		undo = append(undo, remove)
	}
	return withdraw, nil
}

// banner is shown whatever --quiet says.
func (d *devRun) banner() {
	quiet := d.flags.quiet
	d.flags.quiet = false
	d.warn("--open: this development relay listens on %s, which other machines may reach. It speaks plain HTTP, "+
		"takes relays on loopback, and anybody who reaches it can register. It is for a container or a network of your own.", d.ln.Addr())
	d.flags.quiet = quiet
}

// background runs what only looks on: the line of activity, and the removal of
// what killed relays left. The channel closes when it has stopped.
func (d *devRun) background(ctx context.Context, server *relaysvc.Server) (stopped <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		removeStaleData(os.TempDir())
		d.showActivity(ctx, server)
	}()
	return done, cancel
}

// commandSignals are those that ace passes on to the command of --exec.
func commandSignals() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}
