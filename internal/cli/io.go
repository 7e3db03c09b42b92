package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// IO is what a command sees of the world: streams, terminals, environment,
// clock.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	// InTTY, OutTTY and ErrTTY say which streams are terminals.
	InTTY, OutTTY, ErrTTY bool
	// Columns is the width of the terminal, or 0.
	Columns int
	// Getenv returns a variable of the environment and whether it is set.
	Getenv func(string) (string, bool)
	// Environ returns all variables as NAME=VALUE. It may be nil.
	Environ func() []string
	// Unsetenv removes a variable, so that child processes do not get it.
	Unsetenv func(string)
	// Password reads one line from the terminal without showing it.
	Password func(context.Context) ([]byte, error)
	// Now returns Unix seconds.
	Now func() int64

	catchSignals func()       // makes signals end the context, see Main
	beforeExit   func(func()) // sets what a second signal still does, see Main
	notifyReload func(...os.Signal) (signals <-chan os.Signal, stop func())
}

// System returns the IO of this process.
func System() IO {
	o := IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:    term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY:   term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY:   term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:   os.LookupEnv,
		Environ:  os.Environ,
		Unsetenv: func(name string) { os.Unsetenv(name) },
		Password: readPassword,
		Now:      failpoint.Clock(func() int64 { return time.Now().Unix() }),
	}
	if o.OutTTY {
		o.Columns, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if text, ok := os.LookupEnv("ACE_FORCE_TTY"); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			o.OutTTY, o.Columns = true, n
		}
	}
	return o
}

// readPassword reads a line from the terminal, which is as before when a signal
// ends the waiting.
func readPassword(ctx context.Context) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	pass, err := interruptible(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
	return pass, err
}

// env returns a variable of the environment, "" when it is not set.
func (o IO) env(name string) string {
	v, _ := o.Getenv(name)
	return v
}

// environ returns all variables, none where they cannot be listed.
func (o IO) environ() []string {
	if o.Environ == nil {
		return nil
	}
	return o.Environ()
}
