package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// killAfter is how long a run may take to end that was told to.
	killAfter = 5 * time.Second
	// strayGrace is how long what a run has left behind may go on writing once the
	// run has ended.
	strayGrace = time.Second
	// outputMost bounds what is passed on of the output of one run, in bytes.
	outputMost = 64 << 10
)

// Command is the program that handles a message.
type Command struct {
	path string
	args []string
}

// Find returns the command of an argument list, whose first word is looked for as
// a shell does. It fails when that is no program that can be started.
func Find(argv []string) (Command, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return Command{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Command{}, err
	}
	return Command{path, argv[1:]}, nil
}

// run is one run of a command.
type run struct {
	cmd     *exec.Cmd
	out     *output
	timeout time.Duration
	grace   time.Duration // that it gets when it is to end early
	groups  *groups
}

// outcome of a run.
type outcome struct {
	exit        int    // status, 128 and the number for a signal
	reason      string // why it failed, "" when it did not
	interrupted bool   // it was ended from outside
	output      int64  // bytes that it has written
	left        int64  // of them that were not passed on
}

// prepare makes a run with a process group of its own, which is all that it is
// ended with. Nothing reaches it but its environment, input and output: other
// files of this process are closed in it.
func (c Command) prepare(env []string, input []byte, out *output) *exec.Cmd {
	cmd := exec.Command(c.path, c.args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, wholeInput(input), out, out
	cmd.WaitDelay = strayGrace
	cmd.SysProcAttr = processGroup()
	return cmd
}

// do runs it to its end. The end of ctx ends it when it does not within the grace
// that it has.
func (r *run) do(ctx context.Context) outcome {
	ended := make(chan error, 1)
	if err := r.start(ended); err != nil {
		r.out.close()
		if errors.Is(err, errOver) {
			return outcome{interrupted: true}
		}
		return outcome{exit: startFailed(err), reason: "it does not start: " + reasonOf(err)}
	}
	pid := r.cmd.Process.Pid
	defer r.groups.remove(pid)
	why, err := r.await(ctx, pid, ended)
	// What it has left behind in its group is ended with it, or it would pile up.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	o := outcomeOf(r.cmd.ProcessState, err)
	switch {
	case why == stopped:
		o.interrupted = true // whatever it says of a work that was cut off
	case why == timedOut:
		o.reason = fmt.Sprintf("it took longer than %s", r.timeout)
		if o.exit == 0 {
			o.exit = 128 + int(syscall.SIGTERM)
		}
	}
	o.output, o.left = r.out.close()
	return o
}

// start starts the run, and waits for it on the thread that started it: a system
// that ends children with their parent takes the thread for the parent.
func (r *run) start(ended chan<- error) error {
	started := make(chan error)
	go lockedToThread(func() {
		err := r.groups.start(r.cmd)
		closeInput(r.cmd)
		started <- err
		if err == nil {
			ended <- r.cmd.Wait()
		}
	})
	return <-started
}

// closeInput lets go of a file that the run reads, which has it by now.
func closeInput(cmd *exec.Cmd) {
	if f, ok := cmd.Stdin.(*os.File); ok {
		f.Close()
	}
}

// Why a run was ended.
type why int

const (
	byItself why = iota
	timedOut
	stopped
)

// await waits for the end of a run and brings it about when its time is over.
func (r *run) await(ctx context.Context, pid int, ended <-chan error) (why, error) {
	limit := time.NewTimer(r.timeout)
	defer limit.Stop()
	stop := ctx.Done()
	var grace <-chan time.Time
	reason := byItself
	for reason == byItself {
		select {
		case err := <-ended:
			return byItself, err
		case <-limit.C:
			reason = timedOut
		case <-stop:
			stop, grace = nil, time.After(r.grace)
		case <-grace:
			reason = stopped
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case err := <-ended:
		return reason, err
	case <-time.After(killAfter):
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return reason, <-ended
}

func outcomeOf(state *os.ProcessState, err error) outcome {
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		return outcome{exit: 128 + int(status.Signal()), reason: fmt.Sprintf("signal %d (%s)", int(status.Signal()), status.Signal())}
	case state.ExitCode() != 0:
		return outcome{exit: state.ExitCode(), reason: fmt.Sprintf("exit status %d", state.ExitCode())}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, syscall.EPIPE):
		return outcome{exit: 1, reason: "its input or output failed"}
	}
	return outcome{}
}

// startFailed returns the status that shells give a program that does not start.
func startFailed(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// reasonOf tells the cause of an error without the path that it names.
func reasonOf(err error) string {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// groups are the process groups of the runs under way.
type groups struct {
	mu   sync.Mutex
	pids map[int]bool // guarded by mu, as is over
	over bool
}

var errOver = errors.New("the program ends")

func (g *groups) start(cmd *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return errOver
	}
	err := cmd.Start()
	if err == nil {
		g.pids[cmd.Process.Pid] = true
	}
	return err
}

func (g *groups) remove(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pids, pid)
}

// kill ends all runs at once, and no other begins.
func (g *groups) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for pid := range g.pids {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
