package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// throwaway is a development relay in a process of its own, with its store in a
// temporary folder.
type throwaway struct {
	relayReady
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// throwawayStart is how long it may take to be ready.
const throwawayStart = 20 * time.Second

// startThrowaway runs this program as a relay. Call stop in every case.
func (a *app) startThrowaway(ctx context.Context) (*throwaway, error) {
	dir, err := os.MkdirTemp("", "ace-bench-")
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	t := &throwaway{dir: dir, ended: make(chan struct{})}
	if err := t.start(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return t, nil
}

func (t *throwaway) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	t.cmd = exec.Command(program, "relay", "serve", "--dev", "--quiet", "--data", filepath.Join(t.dir, "store"))
	t.cmd.Args[0] = os.Args[0]
	// No settings of the user's, and no address left where --relay dev looks.
	t.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.dir, "XDG_RUNTIME_DIR=" + t.dir, "TMPDIR=" + t.dir}
	ownGroup(t.cmd) // Ctrl-C is for the command alone, which ends the relay
	out, err := t.cmd.StdoutPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return fault.Wrapf(fault.RelayUnavailable, err, "a relay of its own")
	}
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &t.relayReady)
		}
		ready <- err
		_ = t.cmd.Wait() // it ends by being killed
		close(t.ended)
	}()
	select {
	case err = <-ready:
	case <-time.After(throwawayStart):
		err = errors.New("it is not ready in time")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		t.kill()
		return fault.Wrapf(fault.RelayUnavailable, err, "a relay of its own")
	}
	return nil
}

func (t *throwaway) kill() {
	_ = t.cmd.Process.Kill() // nothing is worth keeping
	<-t.ended
}

// stop ends the relay and removes its store.
func (t *throwaway) stop() {
	t.kill()
	os.RemoveAll(t.dir)
}
