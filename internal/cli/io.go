package cli

import (
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
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
	// Unsetenv removes a variable, so that child processes do not get it.
	Unsetenv func(string)
	// Password reads one line from the terminal without showing it.
	Password func() ([]byte, error)
	// Now returns Unix seconds.
	Now func() int64

	catchSignals func() // makes signals end the context, see Main
}

// System returns the IO of this process.
func System() IO {
	o := IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:    term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY:   term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY:   term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:   os.LookupEnv,
		Unsetenv: func(name string) { os.Unsetenv(name) },
		Password: func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		Now:      func() int64 { return time.Now().Unix() },
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

// env returns a variable of the environment, "" when it is not set.
func (o IO) env(name string) string {
	v, _ := o.Getenv(name)
	return v
}
