package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/wire"
)

// listenOptions are those of ace listen.
type listenOptions struct {
	once, noMaintain, forever bool
	idleExit                  time.Duration
	poll                      int
	types                     []string
	handlerOptions
}

func (o *listenOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.once, "once", false, "end after the first message, or with --exec after the first run")
	f.BoolVar(&o.noMaintain, "no-maintain", false, "leave it to ace maintain to stay in reach")
	f.BoolVar(&o.forever, "forever", false, "begin again where ten connections in a row have failed, the clocks differ, or the signing key has ended")
	durationVar(f, &o.idleExit, "idle-exit", 0, "end when nothing came for so `LONG` and no command runs")
	f.IntVar(&o.poll, "poll", 0, "ask every `SECONDS` in place of a stream, where a proxy holds streams up")
	f.StringSliceVar(&o.types, "types", nil, "only messages of these `TYPES`; others are received all the same")
	o.handlerOptions.addFlags(c)
}

// check checks the options, and the command of --exec, before anything is opened.
func (o *listenOptions) check(a *app, args []string, dash int) error {
	switch {
	case o.idleExit < 0:
		return usagef("--idle-exit is not negative")
	case o.once && o.idleExit > 0:
		return usagef("--once and --idle-exit exclude each other")
	}
	err := checkPoll(o.poll)
	if err != nil {
		return err
	}
	if o.types, err = a.messageTypes(o.types); err != nil {
		return err
	}
	return o.handlerOptions.check(args, dash)
}

func checkPoll(seconds int) error {
	if seconds < 0 || seconds > wire.OfflineWindowSeconds {
		return usagef("--poll is 1 to %d seconds", wire.OfflineWindowSeconds)
	}
	return nil
}

// messageTypes returns the types that the identity knows by names, short or whole.
func (a *app) messageTypes(names []string) (types []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	_, known, err := a.vocabulary()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		msg, ok := known.messageType(name)
		if !ok {
			return nil, hintf(usagef("--types: %q is no type that the identity knows", name), "ace profile list shows the profiles, ace profile show their types")
		}
		types = append(types, msg.Type)
	}
	return types, nil
}
