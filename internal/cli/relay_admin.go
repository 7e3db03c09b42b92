package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

// adminSocket is the name of the socket in the folder of the store.
const adminSocket = "admin.sock"

// adminTarget says which relay on this machine a command is for.
type adminTarget struct{ data, socket string }

func (t *adminTarget) addTo(f *pflag.FlagSet) {
	f.StringVar(&t.data, "data", "", "`DIR` of the relay's store (default relay in the folder of all state)")
	f.StringVar(&t.socket, "admin-socket", "", "`PATH` of the relay's admin socket (default admin.sock in the folder of its store)")
}

// complete fills in what the flags leave open: from the environment, then from
// the defaults.
func (t *adminTarget) complete(a *app) {
	if t.data == "" {
		t.data = a.io.env("ACE_RELAY_DATA")
	}
	if t.data == "" {
		t.data = filepath.Join(a.dataDir(), "relay")
	}
	if t.socket == "" {
		t.socket = a.io.env("ACE_RELAY_ADMIN_SOCKET")
	}
	if t.socket == "" {
		t.socket = filepath.Join(t.data, adminSocket)
	}
}

func (t *adminTarget) db() string { return filepath.Join(t.data, "relay.db") }

// needStore fails unless there is a store: opening one would make it.
func (t *adminTarget) needStore() error {
	if _, err := os.Stat(t.db()); err != nil {
		return hintf(fault.New(fault.StorageFailed, "no relay runs, and there is no store at %s", t.db()), "name the folder of its store with --data")
	}
	return nil
}

// admin runs do with a client of the relay.
func (t *adminTarget) admin(a *app, do func(*relayadmin.Client) error) error {
	t.complete(a)
	c := relayadmin.NewClient(t.socket)
	defer c.Close()
	err := do(c)
	if fault.CodeOf(err) == fault.RelayUnavailable && !errors.Is(err, context.DeadlineExceeded) {
		return withHint(err, "start one with ace relay serve, or say which with --data DIR or --admin-socket PATH, as its ready line has them")
	}
	return err
}

// adminLeaf completes a command for a running relay.
func (a *app) adminLeaf(c *cobra.Command, least, most int, answers []any, do func(ctx context.Context, r *relayadmin.Client, args []string) error) *cobra.Command {
	var target adminTarget
	target.addTo(c.Flags())
	return a.leaf(c, least, most, answers, func(ctx context.Context, args []string) error {
		ctx, cancel := a.givenDeadline(ctx)
		defer cancel()
		return target.admin(a, func(r *relayadmin.Client) error { return do(ctx, r, args) })
	})
}

// relayAdminCmds returns the commands that act on a relay of this machine.
func relayAdminCmds(a *app) []*cobra.Command {
	return []*cobra.Command{
		newRelayStatusCmd(a), newRelayDrainCmd(a), newRelayGCCmd(a),
		newRelayBackupCmd(a), newRelayRestoreCmd(a), newRelayVerifyCmd(a),
		newRelayIdentityCmd(a), newRelayHandleCmd(a), newRelayQuotaCmd(a),
	}
}

// relayPlan is what --dry-run says that a command would do.
type relayPlan struct {
	Action   string `json:"action"`
	Target   string `json:"target"`   // an ACE ID, or the path of a store
	Entries  int64  `json:"entries"`  // queued packets that it deletes, or restores
	Replaces bool   `json:"replaces"` // a store that is there
}

// dryRun is what --dry-run does, in the words of its help.
const dryRun = "print as JSON what would be done, and do nothing"

// relayDone is the answer of an action on a relay.
type relayDone struct {
	Action string `json:"action"`
	Target string `json:"target"`
}

func (r relayDone) text(p *page) { p.line("%s: %s", r.Target, r.Action) }

// statusPatience is how long ace relay status waits unless --timeout says: longer
// than a relay that still answers takes to find that its store does not.
const statusPatience = 10 * time.Second

func newRelayStatusCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the relay on this machine",
		Long: `Show the state of the relay on this machine. Exits with 20 when no relay answers
within 10 seconds, or the time of --timeout, and with 33 when the relay does and
its store takes nothing.`,
	}
	return a.adminLeaf(c, 0, 0, []any{relayStatus{}}, func(ctx context.Context, r *relayadmin.Client, _ []string) error {
		if !a.flags.timeoutGiven {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, statusPatience)
			defer cancel()
		}
		s, err := r.Status(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return hintf(fault.New(fault.RelayUnavailable, "a relay has its admin socket open and does not answer"),
				"look at the log of its process and at the disk of its store; what was accepted stays when the process is killed")
		}
		if err != nil {
			return err
		}
		if err := a.print(relayStatus(s)); err != nil || s.Store == relayadmin.StoreOK {
			return err
		}
		return hintf(fault.New(fault.StorageFailed, "the store of the relay takes nothing: %s", s.Store),
			"see whether the disk of the store answers and has room; the log of the relay says more")
	})
}

type relayStatus relayadmin.Status

func (s relayStatus) text(p *page) {
	p.row("relay", s.PublicURL)
	p.row("data", s.Data)
	p.row("process", p.number(int64(s.PID)))
	state := "serving"
	if s.Draining {
		state = "draining"
	}
	p.row("state", state)
	p.row("store", s.Store)
	p.row("streams", p.number(int64(s.Streams)))
}

func newRelayDrainCmd(a *app) *cobra.Command {
	var deadline, spread time.Duration
	c := &cobra.Command{
		Use:   "drain [--deadline D] [--spread D]",
		Short: "End the relay: finish what is in progress, send its clients on",
		Long: `End the relay as SIGTERM does: it reports that it is not ready, asks the clients
of its streams to connect again, spread over a time, finishes short requests,
and exits. The command does not wait for that.`,
	}
	durationVar(c.Flags(), &deadline, "deadline", 0, "most `TIME` for all of it (default as configured)")
	durationVar(c.Flags(), &spread, "spread", 0, "`TIME` over which streams are asked to reconnect (default as configured)")
	return a.adminLeaf(c, 0, 0, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, _ []string) error {
		if deadline < 0 || spread < 0 {
			return usagef("--deadline and --spread are not negative")
		}
		if err := r.Drain(ctx, given(c.Flags(), "deadline", deadline), given(c.Flags(), "spread", spread)); err != nil {
			return err
		}
		return a.print(relayDone{"draining", "relay"})
	})
}

// given returns the value of a flag that was given, else nil.
func given[T any](f *pflag.FlagSet, name string, value T) *T {
	if !f.Changed(name) {
		return nil
	}
	return &value
}

func newRelayGCCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove what has expired now",
		Long: `Remove expired packets, nonces and logs without waiting for the relay's own
round, and overwrite the places where they were.`,
	}
	return a.adminLeaf(c, 0, 0, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, _ []string) error {
		if err := r.Collect(ctx); err != nil {
			return err
		}
		return a.print(relayDone{"expired entries removed", "relay"})
	})
}
