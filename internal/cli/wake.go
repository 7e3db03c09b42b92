package cli

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/relayapi"
)

func newWakeCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "wake",
		Short: "Be woken when something waits at the relay",
		Long: `Have the home relay tell a gateway of yours when something waits for you, so that
an endpoint that is not running can be started to fetch it. A wake carries a
token of the gateway's and nothing else. Nothing depends on it: what waits is
fetched by ace pull and ace listen all the same. Not every relay offers it.`,
	}, newWakeSetCmd(a), newWakeClearCmd(a))
}

func newWakeSetCmd(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "set GATEWAY --token-file FILE|-",
		Short: "Register where wakes go",
		Long: `Register the gateway that the home relay wakes, in place of an earlier one. The
gateway issued the token, which is the first line of FILE, or of standard input
for "-": whoever knows it can wake you. The registration ends with ace unpublish,
or after seven days in which nothing is fetched.`,
		Example: "  ace wake set https://push.example/ace --token-file token",
	}
	c.Flags().StringVar(&file, "token-file", "", "`FILE` that only you can read, with the gateway's token")
	return a.leaf(c, 1, 1, []any{wakeAnswer{}}, func(ctx context.Context, args []string) error {
		token, err := a.readWakeToken(file)
		if err != nil {
			return err
		}
		return a.changeWake(ctx, args[0], func(ctx context.Context, s *session) error { return s.SetWake(ctx, args[0], token) })
	})
}

func newWakeClearCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "clear",
		Short: "End the wakes",
		Long:  "Remove the registration of a gateway at the home relay, if there is one.",
	}
	return a.leaf(c, 0, 0, []any{wakeAnswer{}}, func(ctx context.Context, _ []string) error {
		return a.changeWake(ctx, "", func(ctx context.Context, s *session) error { return s.ClearWake(ctx) })
	})
}

// wakeAnswer says which gateway the relay wakes, null for none.
type wakeAnswer struct {
	ACEID   string  `json:"ace_id"`
	Relay   string  `json:"relay"`
	Gateway *string `json:"gateway"`
}

func (r wakeAnswer) text(p *page) {
	if r.Gateway == nil {
		p.line("%s sends no wakes", r.Relay)
		return
	}
	p.line("%s wakes %s", r.Relay, *r.Gateway)
}

func (a *app) changeWake(ctx context.Context, gateway string, change func(context.Context, *session) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	if err := change(ctx, s); err != nil {
		if remoteIs(err, relayapi.NotFound) {
			return withHint(err, "this relay does not offer wakes; ace listen and ace pull need none")
		}
		return err
	}
	return a.print(wakeAnswer{s.ACEID(), s.relay, orNull(gateway)})
}

// wakeTokenLimit is larger than any token, with the end of its line.
const wakeTokenLimit = 1024

// readWakeToken reads a token, which never stands on a command line: other users
// of the machine can read those.
func (a *app) readWakeToken(file string) (string, error) {
	if file == "" {
		return "", withHint(usagef("the token is missing"), "give --token-file FILE, or --token-file - for standard input")
	}
	read := ownerfile.Read
	if file == "-" {
		read = func(name string, limit int64) ([]byte, error) { return a.readArg(name, limit, fault.InvalidArgument) }
	}
	text, err := read(file, wakeTokenLimit)
	if err != nil {
		return "", usagef("the token: %v", err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSuffix(line, []byte("\r"))), nil
}
