package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

func newWaitRelayCmd(a *app) *cobra.Command {
	var readyFile string
	c := &cobra.Command{
		Use:   "relay [--ready-file FILE]",
		Short: "Wait until a relay serves",
		Long: `Wait until a relay serves: the one of --relay, else the home relay of the identity
to act as, whose keys are not opened. With --ready-file, it is the one whose ready
line the file gets, as of ace relay serve --ready-file; the file need not be there
yet.`,
		Example: `  ace relay serve --dev --exit-with-parent --ready-file r.json &
  ace wait relay --ready-file r.json && export ACE_RELAY=$(jq -r .url r.json)`,
	}
	c.Flags().StringVar(&readyFile, "ready-file", "", "`FILE` with the ready line of the relay")
	return a.leaf(c, 0, 0, []any{waitRelayAnswer{}}, func(ctx context.Context, _ []string) error { return runWaitRelay(ctx, a, readyFile) })
}

// waitRelayAnswer names the relay that serves.
type waitRelayAnswer struct {
	Relay string `json:"relay"`
}

func (r waitRelayAnswer) text(p *page) { p.line("%s serves", r.Relay) }

func runWaitRelay(ctx context.Context, a *app, readyFile string) error {
	a.io.catchSignals()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	var relay string
	err := keepAsking(ctx, func(ctx context.Context) (bool, error) {
		url, urls, err := a.awaitedRelay(readyFile)
		if err != nil {
			return false, err
		}
		relay = url
		_, err = core.AskHealth(ctx, url, urls)
		if errors.Is(err, fault.RelayRejected) { // something else serves there, for now
			err = fault.Wrapf(fault.RelayProtocolError, err, "%s", url)
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return a.print(waitRelayAnswer{relay})
}

// awaitedRelay returns the relay that is waited for, with an error that may pass
// while it is not known yet.
func (a *app) awaitedRelay(readyFile string) (url string, urls wire.URLPolicy, err error) {
	if readyFile != "" {
		url, err = readReadyFile(readyFile)
		return url, wire.Development, err
	}
	if a.flags.allowLoopback || a.flags.relay == relayDev {
		urls = wire.Development
	}
	if a.flags.relay != "" {
		url, err = a.relayURL(a.flags.relay, a.flags.allowLoopback)
		return url, urls, err
	}
	id, err := a.identity()
	if err != nil {
		return "", urls, err
	}
	url, err = a.homeRelay(id)
	if err == nil && url == "" {
		err = errNoRelay(id)
	}
	return url, a.urls(id), err
}

// readReadyFile returns the URL of the ready line in a file. What is not there yet,
// or not whole, may still come.
func readReadyFile(path string) (url string, err error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe would be waited for without end
		return "", usagef("--ready-file: %s is no ordinary file", path)
	}
	var text []byte
	if err == nil {
		text, err = readStart(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.FetchFailed, "%s is not there", path)
	}
	if err != nil {
		return "", fault.Wrap(fault.StorageFailed, err)
	}
	var line relayReady
	if json.Unmarshal(text, &line) != nil || line.Event != "ready" {
		return "", fault.New(fault.FetchFailed, "%s has no ready line", path)
	}
	if err := wire.CheckRelayURL(line.URL, wire.Development); err != nil {
		return "", fault.Wrapf(fault.InvalidArgument, err, "%s", path)
	}
	return line.URL, nil
}

// readStart reads as much of a file as a ready line can have.
func readStart(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, readyLimit))
}
