package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// buildAce builds the program as it is released.
func buildAce(ctx context.Context, repo, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/ace")
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/ace: %w\n%s", err, text)
	}
	return nil
}

// relay is ace relay serve.
type relay struct {
	ace, dir string
	body     int
	started  int
}

func (r *relay) name() string { return "relay" }

func (r *relay) prepare(_ context.Context, dir string) error {
	r.dir = dir
	return nil
}

func (r *relay) close() error { return nil }

// relayRecipients share what is sent, because one recipient's queue is bounded.
const relayRecipients = 64

func (r *relay) session(ctx context.Context, clients int) (*session, error) {
	p, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	load, err := loadgen.Open(ctx, loadgen.Config{URL: p.url, Senders: clients, Recipients: relayRecipients, Size: r.body})
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &session{run: load.Send, pid: p.pid(), close: p.stop}, nil
}

// relayProcess is a running relay with a store of its own.
type relayProcess struct {
	*process
	url  string
	data string
}

// start runs a relay with an empty store.
func (r *relay) start(ctx context.Context) (*relayProcess, error) {
	r.started++
	data := filepath.Join(r.dir, fmt.Sprint(r.started))
	cmd := exec.Command(r.ace, "relay", "serve", "--dev", "--data", filepath.Join(data, "store"))
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	// Nothing of the user's own settings, and no address left for --relay dev.
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+data, "XDG_CONFIG_HOME="+data, "ACE_HOME="+data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return nil, err
	}
	var ready struct{ URL string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the relay did not start: %w", err), p.kill(0))
	}
	return &relayProcess{process: p, url: ready.URL, data: data}, nil
}

// stop kills the relay, whose store is not needed any more.
func (p *relayProcess) stop() error {
	return errors.Join(p.kill(0), os.RemoveAll(p.data))
}

// measureStreams finds out what an idle listen stream costs the relay.
func measureStreams(ctx context.Context, o *options, dir string, t *table) error {
	r := &relay{ace: o.ace, dir: filepath.Join(dir, "streams")}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return err
	}
	streams := min(o.streams, openFileLimit()-200)
	if streams < o.streams {
		progress("%d streams instead of %d: the limit on open files allows no more", streams, o.streams)
	}
	for range o.rounds {
		size, err := r.measureStreams(ctx, streams)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("idle streams: %w", err)
		}
		progress("%d idle streams  %6.1f KiB each", streams, float64(size)/1024)
		t.addStream(streams, size)
	}
	return nil
}

// A relay bounds the streams of one identity; idleTime lets it settle.
const (
	streamsPerRecipient = 8
	idleTime            = 5 * time.Second
)

func (r *relay) measureStreams(ctx context.Context, streams int) (size int64, err error) {
	p, err := r.start(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	recipients := min(loadgen.MaxRecipients, max(1, streams/streamsPerRecipient))
	load, err := loadgen.Open(ctx, loadgen.Config{URL: p.url, Recipients: recipients})
	if err != nil {
		return 0, err
	}
	l, err := load.Listen(ctx, loadgen.Listening{Streams: streams, Duration: idleTime, PID: p.pid()})
	if err != nil {
		return 0, err
	}
	if len(l.Errors) > 0 || l.BytesPerStream < 0 {
		return 0, fmt.Errorf("no measurement: %s", describe(l.Errors))
	}
	return l.BytesPerStream, nil
}
