package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// commandGrace is how long a command may take to end that was told to, before
// it is killed.
const commandGrace = 10 * time.Second

// takeCommand takes the words after "--" for the command of --exec, which has
// to be one that can be started.
func (o *devOptions) takeCommand(args []string, dash int) error {
	const example = "as in ace relay serve --dev --exec -- npm test"
	switch {
	case len(args) > 0 && dash != 0:
		err := usagef("wrong number of arguments: %d", len(args))
		if o.exec {
			return hintf(err, "put -- before the command, %s", example)
		}
		return err
	case len(args) > 0 && !o.exec:
		return hintf(usagef("a command without --exec"), "%s", example)
	case len(args) == 0 && o.exec:
		return hintf(usagef("--exec needs a command"), "%s", example)
	case len(args) == 0:
		return nil
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return usagef("--exec: %v", err)
	}
	o.command = args
	return nil
}

// runCommand runs the command of --exec and returns its exit status as the
// error. The end of ctx, as when the relay fails, terminates it.
func (d *devRun) runCommand(ctx context.Context) error {
	words := d.o.command
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = d.io.In, unwatched(d.io.Out), d.io.Err
	c.Env = append(os.Environ(), "ACE_RELAY="+d.ready.URL, envName("allow-loopback")+"=1")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = commandGrace
	// A receiver undoes, for the command, that ace ignores this signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := c.Start(); err != nil {
		return usagef("--exec: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-d.signals:
			if !fromTerminal(s) {
				_ = c.Process.Signal(s) // it may have ended meanwhile
			}
		case err := <-ended:
			return commandStatus(c.ProcessState, err)
		}
	}
}

// commandStatus is the end of ace with the exit status of its command: 128 and
// the number of the signal for one that a signal ended.
func commandStatus(state *os.ProcessState, err error) error {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return &reported{128 + int(status.Signal())}
	case state.Success():
		// Also when it was told to end, with the relay, or left a process behind:
		// the error is about that.
		return errDrained
	case state.ExitCode() > 0:
		return &reported{state.ExitCode()}
	}
	return fmt.Errorf("the command: %w", err)
}

// unwatched returns the file behind the writer of a command line, so that the
// command of --exec gets it itself and not a pipe.
func unwatched(w io.Writer) io.Writer {
	if watched, ok := w.(*watchedWriter); ok {
		return watched.w
	}
	return w
}

// fromTerminal reports whether the command has got a signal too: what a
// terminal sends on Ctrl-C goes to every process in its foreground.
func fromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground()
}

// inForeground reports whether the program runs in the foreground of a
// terminal.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
