package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a child. It ends with kill, or when this program does.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	stderr *bytes.Buffer // read it after ended
}

// startProcess starts cmd, which is not bound to ctx: who starts a process also
// ends it, in the order of its own.
func startProcess(ctx context.Context, cmd *exec.Cmd) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), stderr: &bytes.Buffer{}}
	cmd.Stderr = p.stderr
	// Ctrl-C is for this program alone: it ends the others.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", cmd.Path, errMissing)
		}
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // how it ended is of no interest: it was killed
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// endTime is how long a process may take to end in its own way.
const endTime = 10 * time.Second

// kill ends the process and its children and waits for that: with a signal
// first, if one is given that lets it do so itself.
func (p *process) kill(first syscall.Signal) error {
	if first != 0 {
		_ = p.cmd.Process.Signal(first)
		select {
		case <-p.ended:
		case <-time.After(endTime):
		}
	}
	if err := syscall.Kill(-p.pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.ended
	return nil
}

// readyTime is how long a server may take to answer.
const readyTime = 20 * time.Second

// untilReady tries until a server answers, ends or takes too long.
func (p *process) untilReady(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %s", p.stderr.Bytes())
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
