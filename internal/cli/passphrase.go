package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// passphraseSource says where a passphrase comes from. There is no source on
// the command line itself, which other users of the machine can read.
type passphraseSource struct {
	// Source is prompt, file, command or none; "" is not said.
	Source string `toml:"source"`
	// File holds the passphrase in its first line.
	File string `toml:"file"`
	// Command prints the passphrase; the first element is the program.
	Command []string `toml:"command"`
	// Timeout bounds the command, as in "5s".
	Timeout duration `toml:"timeout"`

	fd    int    // file descriptor of the first line, < 0 none
	shell string // a command for the shell
}

// sourceNone is the source of an identity whose keys are not encrypted.
const sourceNone = "none"

const (
	passphraseLimit   = 4096 // bytes
	passphraseTimeout = time.Minute
)

// addOptions adds the options that name the source: prefix-file, prefix-fd and
// prefix-command.
func (s *passphraseSource) addOptions(f *pflag.FlagSet, prefix, what string) {
	f.StringVar(&s.File, prefix+"-file", "", "`FILE` to read "+what+" from")
	f.IntVar(&s.fd, prefix+"-fd", -1, "file descriptor `N` to read "+what+" from")
	f.StringVar(&s.shell, prefix+"-command", "", "`COMMAND` that prints "+what)
	f.Lookup(prefix + "-fd").DefValue = "0" // keeps "-1" out of help
}

// check refuses a source whose parts do not fit together.
func (s passphraseSource) check() error {
	switch s.Source {
	case "", "prompt", sourceNone:
		if s.File != "" || len(s.Command) > 0 {
			return fmt.Errorf("passphrase: source %q with a file or a command", s.Source)
		}
	case "file":
		if s.File == "" {
			return errors.New("passphrase: source \"file\" without file")
		}
	case "command":
		if len(s.Command) == 0 {
			return errors.New("passphrase: source \"command\" without command")
		}
	default:
		return fmt.Errorf("passphrase: source is prompt, file, command or none, not %q", s.Source)
	}
	return nil
}

// sourceOption says whose passphrase an option is a source of: "" stands for
// the identity.
func sourceOption(name string) (whose string, ok bool) {
	for _, source := range []string{"file", "fd", "command"} {
		if whose, ok = strings.CutSuffix(name, "passphrase-"+source); ok {
			return whose, true
		}
	}
	return "", false
}

// sourcesGiven returns the options that name a source, by whose passphrase it
// is.
func sourcesGiven(cmd *cobra.Command) map[string][]string {
	given := map[string][]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if whose, ok := sourceOption(f.Name); ok {
			given[whose] = append(given[whose], "--"+f.Name)
		}
	})
	return given
}

// checkSources refuses two sources of one passphrase, and a descriptor that
// cannot be one: it must not be taken for no source.
func checkSources(cmd *cobra.Command) error {
	for _, names := range sourcesGiven(cmd) {
		if len(names) > 1 {
			return usagef("%s exclude each other", strings.Join(names, " and "))
		}
	}
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := sourceOption(f.Name); ok && strings.HasPrefix(f.Value.String(), "-") && f.Value.Type() == "int" {
			err = usagef("--%s is the number of a file descriptor, not %s", f.Name, f.Value)
		}
	})
	return err
}

// given reports whether an option names a source.
func (s passphraseSource) given() bool { return s.File != "" || s.shell != "" || s.fd >= 0 }

// passphrase returns the passphrase that the options, the environment or the
// configuration of an identity give, and nil when they name no source.
func (a *app) passphrase(ctx context.Context, identity string) ([]byte, error) {
	if s := a.flags.passphrase; s.given() {
		return s.read(ctx, a.io)
	}
	if pass, ok := a.io.Getenv("ACE_PASSPHRASE"); ok {
		a.io.Unsetenv("ACE_PASSPHRASE")
		if pass != "" {
			return []byte(pass), nil
		}
	}
	return a.configuredSource(identity).read(ctx, a.io)
}

// configuredSource returns the source that the configuration has for an
// identity.
func (a *app) configuredSource(identity string) passphraseSource {
	s := a.conf.Identities[identity].Passphrase
	if s.Source == "" {
		s = a.conf.Passphrase
	}
	s.fd = -1
	return s
}

// read gets the passphrase from the source, nil when it names none.
func (s passphraseSource) read(ctx context.Context, o IO) ([]byte, error) {
	var text []byte
	var err error
	switch {
	case s.fd >= 0:
		text, err = readDescriptor(ctx, s.fd, o)
	case s.shell != "":
		text, err = runForPassphrase(ctx, o, []string{"sh", "-c", s.shell}, passphraseTimeout)
	case s.File != "":
		text, err = ownerfile.Read(s.File, passphraseLimit)
	case len(s.Command) > 0:
		timeout := passphraseTimeout
		if s.Timeout.Duration > 0 {
			timeout = s.Timeout.Duration
		}
		text, err = runForPassphrase(ctx, o, s.Command, timeout)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, hintf(fault.Wrapf(fault.IdentityUnavailable, err, "passphrase"), sourceHint)
	}
	if len(text) > passphraseLimit {
		return nil, fault.New(fault.IdentityUnavailable, "the passphrase source gave more than %d bytes", passphraseLimit)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return nil, hintf(fault.New(fault.IdentityUnavailable, "the passphrase source gave an empty line"), sourceHint)
	}
	return line, nil
}

// sourceHint helps with a source that gives no passphrase.
const sourceHint = "the first line of the file, descriptor or output of the command is the passphrase"

func readDescriptor(ctx context.Context, fd int, o IO) ([]byte, error) {
	in := o.In
	if fd != 0 {
		f := os.NewFile(uintptr(fd), "passphrase")
		if f == nil {
			return nil, fmt.Errorf("file descriptor %d is not open", fd)
		}
		defer f.Close()
		in = f
	}
	line, err := interruptible(ctx, func() (string, error) { return readLine(in) })
	return []byte(line), err
}

func runForPassphrase(ctx context.Context, o IO, argv []string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = o.Err
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	text, readErr := io.ReadAll(io.LimitReader(out, passphraseLimit+1))
	out.Close() // a command that goes on writing would never end
	err = cmd.Wait()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("has not ended within %s", timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return text, readErr
}

// unlockPassphrase returns the passphrase of an encrypted identity, asking for
// it where there is somebody to ask.
func (a *app) unlockPassphrase(ctx context.Context, identity string) ([]byte, error) {
	pass, err := a.passphrase(ctx, identity)
	if err != nil || pass != nil {
		return pass, err
	}
	if a.interactive() {
		return a.askPassphrase(ctx, "Passphrase of "+identity)
	}
	return nil, hintf(fault.New(fault.IdentityUnavailable, "the identity %q needs its passphrase", identity),
		"use --passphrase-file, --passphrase-fd, --passphrase-command or ACE_PASSPHRASE_FILE")
}
