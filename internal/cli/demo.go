package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
)

func newDemoCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch two new identities exchange a message",
		Long: `Start a relay on this machine, make two identities in temporary folders, let
them find each other and exchange a message, and show the command of each step.
It uses no other network and leaves nothing behind.`,
	}
	return a.leaf(c, 0, 0, nil, func(ctx context.Context, _ []string) error { return runDemo(ctx, a) })
}

// demo is a run of ace demo. It runs the very commands that it shows.
type demo struct {
	app *app
	dir string
}

// runDemo prints to standard output: the demonstration is the answer.
func runDemo(ctx context.Context, a *app) error {
	a.io.catchSignals()
	dir, err := os.MkdirTemp("", "ace-demo-")
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer os.RemoveAll(dir)
	d := &demo{app: a, dir: dir}
	url, stop, err := d.startRelay(ctx)
	if err != nil {
		return err
	}
	err = d.story(ctx, url)
	return errors.Join(err, stop())
}

// startRelay runs ace relay serve until stop is called.
func (d *demo) startRelay(ctx context.Context) (url string, stop func() error, err error) {
	d.showStep("A relay on this machine, with its store in a temporary folder.")
	d.showCommand("relay", "ace", "relay", "serve", "--dev")
	ctx, cancel := context.WithCancel(ctx)
	out := &firstLine{line: make(chan string, 1)}
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		o := d.ioOf("relay", out, &stderr)
		ended <- run(ctx, []string{"relay", "serve", "--dev"}, o)
	}()
	select {
	case line := <-out.line:
		d.show(line)
	case <-ended:
		cancel()
		return "", nil, fmt.Errorf("the relay did not start: %s", stderr.String())
	}
	stop = func() error {
		cancel()
		if status := <-ended; status != exitOK {
			return fmt.Errorf("the relay ended with status %d: %s", status, stderr.String())
		}
		return nil
	}
	sub := &app{io: d.ioOf("relay", io.Discard, io.Discard)}
	url, err = sub.findDevRelay()
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return url, stop, nil
}

// story is the main job, step by step.
func (d *demo) story(ctx context.Context, url string) error {
	_, host, _ := strings.Cut(url, "://")
	bob := "@bob@" + host
	script := []struct {
		title string
		lines [][]string
	}{
		{"Two identities, published at the relay.", [][]string{
			{"alice", "init", "--yes", "--relay", "dev", "--handle", "alice"},
			{"bob", "init", "--yes", "--relay", "dev", "--handle", "bob", "--contact", "open"},
		}},
		{"Alice looks Bob up by his handle and asks for contact.", [][]string{
			{"alice", "lookup", bob},
			{"alice", "connect", bob, "--profile", profileText, "--note", "it is Alice"},
		}},
		{"Bob fetches the request, reads the note and accepts.", [][]string{
			{"bob", "pull"},
			{"bob", "contact", "requests"},
			{"bob", "contact", "accept", aliceID, "--name", "alice"},
		}},
		{"Alice fetches his answer and sends a message, encrypted to him alone.", [][]string{
			{"alice", "pull"},
			{"alice", "send", bob, "hello Bob", "--request-id", demoRequest},
		}},
		{"Bob fetches the message and reads it. Fetching has answered it with his signed receipt.", [][]string{
			{"bob", "pull"},
			{"bob", "read", messageID},
		}},
		{"Alice fetches the receipt: the message is delivered.", [][]string{
			{"alice", "pull"},
			{"alice", "outbox", "show", messageID},
		}},
	}
	for _, step := range script {
		d.showStep(step.title)
		for _, line := range step.lines {
			if err := d.command(ctx, line[0], line[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

const demoColumns = 100

// What stands in the script for IDs that are known only once it runs.
const (
	aliceID     = "ALICE"
	messageID   = "MESSAGE"
	demoRequest = "greeting"
)

// command shows and runs one command of a person.
func (d *demo) command(ctx context.Context, who string, args []string) error {
	args = append([]string{}, args...)
	for i, arg := range args {
		var err error
		switch arg {
		case aliceID:
			args[i], err = d.ask(ctx, "alice", "identity", "show", "--jq", ".ace_id")
		case messageID:
			args[i], err = d.ask(ctx, "alice", "outbox", "list", "--jq", ".[0].message_id")
		}
		if err != nil {
			return err
		}
	}
	d.showCommand(who, append([]string{"ace"}, args...)...)
	out, err := d.run(ctx, who, args)
	d.show(out)
	return err
}

// ask runs a command that is not shown and returns what it prints.
func (d *demo) ask(ctx context.Context, who string, args ...string) (string, error) {
	out, err := d.run(ctx, who, args)
	return strings.TrimSpace(out), err
}

func (d *demo) run(ctx context.Context, who string, args []string) (string, error) {
	var out, stderr bytes.Buffer
	o := d.ioOf(who, &out, &stderr)
	if status := run(ctx, args, o); status != exitOK {
		return out.String(), fmt.Errorf("ace %s ended with status %d: %s", strings.Join(args, " "), status, strings.TrimSpace(stderr.String()))
	}
	return out.String(), nil
}

// ioOf is the world of one person: a home and a configuration of their own.
func (d *demo) ioOf(who string, out, stderr io.Writer) IO {
	dir := filepath.Join(d.dir, who)
	env := map[string]string{
		"HOME": dir, "ACE_HOME": filepath.Join(dir, "ace"), "XDG_CONFIG_HOME": filepath.Join(dir, "config"),
		"XDG_RUNTIME_DIR": filepath.Join(d.dir, "runtime"),
	}
	return IO{
		In: strings.NewReader(""), Out: out, Err: stderr, Now: d.app.io.Now,
		OutTTY: true, Columns: demoColumns, // what is shown is for people
		Getenv:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Unsetenv: func(name string) { delete(env, name) },
	}
}

func (d *demo) showStep(title string) { fmt.Fprintf(d.app.io.Out, "\n# %s\n", title) }

// showCommand prints a command as it is typed in a shell.
func (d *demo) showCommand(who string, args ...string) {
	for i, arg := range args {
		if strings.ContainsAny(arg, " '\"$") {
			args[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	fmt.Fprintf(d.app.io.Out, "%s$ %s\n", who, strings.Join(args, " "))
}

func (d *demo) show(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(d.app.io.Out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

// firstLine passes on the first line that is written to it.
type firstLine struct {
	line chan string
	text []byte
	done bool
}

func (w *firstLine) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	if i := bytes.IndexByte(w.text, '\n'); i >= 0 && !w.done {
		w.done = true
		w.line <- string(w.text[:i])
	}
	return len(p), nil
}
