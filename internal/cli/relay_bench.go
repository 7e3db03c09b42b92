package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// relayBench is what both kinds of load are told.
type relayBench struct {
	app              *app
	url              string
	mine             bool
	pid              int
	clients          int
	recipients, size int
	duration         time.Duration
	rate             float64
}

func newRelayBenchCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{
		Use: "bench", Short: "Measure what a relay carries",
		Long: `Put load on a relay and measure it from its clients' side. Without --url it is a
relay of its own, which ends with the command and leaves nothing behind.

A load registers identities at the relay, fills their queues and unregisters
them at its end. It is for a relay that you run.`,
	}, newRelayBenchSendCmd(a), newRelayBenchListenCmd(a))
}

func (o *relayBench) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.url, "url", "", "public `URL` of the relay (default one that the command runs itself)")
	f.BoolVar(&o.mine, "my-relay", false, "you run the relay at --url, which is on another machine, and it may be filled")
	f.IntVar(&o.pid, "pid", 0, "`PID` of the relay at --url on this machine, to measure what it uses")
	f.IntVar(&o.size, "size", 14_000, "`BYTES` of a send, its permit included")
	durationVar(f, &o.duration, "duration", 10*time.Second, "`DURATION` of what is measured")
}

func newRelayBenchSendCmd(a *app) *cobra.Command {
	o, count, warmup := relayBench{app: a}, int64(0), time.Duration(0)
	c := &cobra.Command{
		Use:   "send [flags]",
		Short: "Measure sends: how many are accepted, and how fast",
		Long: `Let clients send packets with permits, each the next one when the last has been
answered. With --rate they send at that rate whether or not the relay keeps up,
and a packet's time counts from when it was due.`,
		Example: `  ace relay bench send
  ace relay bench send --url http://127.0.0.1:8420 --clients 32 --pid "$(pidof ace)"`,
	}
	o.addFlags(c)
	f := c.Flags()
	f.IntVar(&o.clients, "clients", 8, "`NUMBER` of clients, each with a connection")
	f.IntVar(&o.recipients, "recipients", 64, "`NUMBER` of recipients; what one of them has queued is bounded")
	f.Float64Var(&o.rate, "rate", 0, "`SENDS` a second of all clients together (default as many as are answered)")
	f.Int64Var(&count, "count", 0, "end after this `NUMBER` of sends")
	durationVar(f, &warmup, "warmup", time.Second, "`DURATION` before it, which is not measured")
	return a.leaf(c, 0, 0, []any{benchSendAnswer{}}, func(ctx context.Context, _ []string) error {
		return o.run(ctx, func(ctx context.Context, own bool, l *loadgen.Load) error {
			r, err := l.Send(ctx, loadgen.Pace{Clients: o.clients, Duration: o.duration, Warmup: warmup, Count: count, Rate: o.rate, PID: o.pid})
			if err != nil {
				return asUsage(err)
			}
			return o.answer(newBenchSendAnswer(&o, own, l.BodySize(), r), r.Accepted, r.Errors)
		})
	})
}

func newRelayBenchListenCmd(a *app) *cobra.Command {
	o, streams := relayBench{app: a}, 0
	c := &cobra.Command{
		Use:   "listen [flags]",
		Short: "Measure listen streams: from a send to its event, and memory",
		Long: `Keep listen streams open, send packets to their recipients meanwhile, and measure
the time from a send to its event. With --rate 0 the streams are idle.`,
		Example: `  ace relay bench listen --streams 1000 --rate 200
  ace relay bench listen --streams 4000 --rate 0`,
	}
	o.addFlags(c)
	f := c.Flags()
	f.IntVar(&streams, "streams", 100, "`NUMBER` of streams")
	f.IntVar(&o.clients, "clients", 4, "`NUMBER` of clients that send")
	f.IntVar(&o.recipients, "recipients", 0, "`NUMBER` of recipients (default one for 8 streams)")
	f.Float64Var(&o.rate, "rate", 100, "`SENDS` a second of all clients together")
	return a.leaf(c, 0, 0, []any{benchListenAnswer{}}, func(ctx context.Context, _ []string) error {
		if o.recipients == 0 {
			o.recipients = min(max(1, streams/8), loadgen.MaxRecipients)
		}
		return o.run(ctx, func(ctx context.Context, own bool, l *loadgen.Load) error {
			r, err := l.Listen(ctx, loadgen.Listening{Streams: streams, Rate: o.rate, Duration: o.duration, PID: o.pid})
			if err != nil {
				return asUsage(err)
			}
			return o.answer(newBenchListenAnswer(&o, own, r), int64(r.Streams), r.Errors)
		})
	})
}

// run prepares a load, lets do use it, and cleans up, whatever comes of it.
func (o *relayBench) run(ctx context.Context, do func(ctx context.Context, own bool, l *loadgen.Load) error) (err error) {
	o.app.io.catchSignals()
	ctx, cancel := o.app.givenDeadline(ctx)
	defer cancel()
	if err := o.checkURL(); err != nil {
		return err
	}
	// 0 is a default there, and no number to print here.
	if o.recipients == 0 || o.size == 0 {
		return usagef("--recipients and --size are at least 1")
	}
	own := o.url == ""
	if own {
		r, err := o.app.startThrowaway(ctx)
		if err != nil {
			return err
		}
		defer r.stop()
		o.url, o.pid = r.URL, r.PID
	}
	l, err := loadgen.Open(ctx, loadgen.Config{
		URL: o.url, Senders: o.clients, Recipients: o.recipients, Size: o.size, Clock: o.app.io.Now,
	})
	if err != nil {
		return asUsage(err)
	}
	if !own { // the store of its own relay goes with that
		defer func() {
			if failed := l.Close(context.WithoutCancel(ctx)); failed != nil {
				err = errors.Join(err, fault.Wrapf(fault.CodeOf(failed), failed, "the identities of the load are still registered"))
			}
		}()
	}
	if err := do(ctx, own, l); err != nil {
		return err
	}
	return hintf(context.Cause(ctx), "what was printed was measured until then")
}

// checkURL refuses a relay that others may be using, unless the caller says
// that it is theirs.
func (o *relayBench) checkURL() error {
	if o.app.flags.relay != "" {
		return hintf(usagef("--relay is not the relay to load"), "--url URL is; without it, the command runs one of its own")
	}
	if o.url == "" {
		if o.pid != 0 || o.mine {
			return usagef("--pid and --my-relay are about the relay at --url")
		}
		return nil
	}
	relay, err := wire.NormalizeRelayURL(o.url)
	if err == nil {
		err = wire.CheckRelayURL(relay, wire.Development)
	}
	if err != nil {
		return usagef("--url %q: %v", o.url, err)
	}
	o.url = relay
	u, err := url.Parse(relay)
	if err != nil {
		return usagef("--url: %v", err)
	}
	if !o.mine && !wire.IsLoopbackName(u.Hostname()) {
		return hintf(usagef("%s is not on this machine, and a load fills what a relay keeps", relay), "--my-relay says that the relay is yours")
	}
	return nil
}

// asUsage makes a number out of bounds an error of the command line.
func asUsage(err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Code == fault.InvalidArgument && e.Status == 0 {
		return usagef("%v", err)
	}
	return err
}

// answer prints what was measured. It is an error when nothing went well.
func (o *relayBench) answer(r result, well int64, failures []loadgen.ErrorCount) error {
	if err := o.app.print(r); err != nil || well > 0 {
		return err
	}
	return fault.New(fault.RelayUnavailable, "the relay accepted nothing: %s", showErrors(failures))
}

func showErrors(failures []loadgen.ErrorCount) string {
	if len(failures) == 0 {
		return "none"
	}
	var all []string
	for _, e := range failures {
		all = append(all, fmt.Sprintf("%d × %s", e.Count, clean(e.Code, false)))
	}
	return strings.Join(all, ", ")
}
