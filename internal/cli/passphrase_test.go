package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/fault"
)

// TestNoSecretOnTheCommandLine: every option about a passphrase names a source.
func TestNoSecretOnTheCommandLine(t *testing.T) {
	a := &app{io: newStage(t).io("")}
	found := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		check := func(f *pflag.Flag) {
			if !strings.Contains(f.Name, "pass") && !strings.Contains(f.Name, "secret") {
				return
			}
			found++
			ok := strings.HasSuffix(f.Name, "-file") || strings.HasSuffix(f.Name, "-fd") || strings.HasSuffix(f.Name, "-command")
			if !ok {
				t.Errorf("%s --%s takes a secret", c.CommandPath(), f.Name)
			}
		}
		c.Flags().VisitAll(check)
		c.PersistentFlags().VisitAll(check)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root(nil))
	if found < 6 {
		t.Fatalf("only %d options found", found)
	}
}

func TestPassphraseSources(t *testing.T) {
	s := newStage(t)
	file := s.write("pass", "from a file\r\nsecond line\n")
	none := passphraseSource{fd: -1}
	for name, c := range map[string]struct {
		flags   passphraseSource
		conf    passphraseSource
		env, in string
		want    string
		fails   bool
	}{
		"nothing":              {flags: none},
		"file":                 {flags: passphraseSource{fd: -1, File: file}, want: "from a file"},
		"standard input":       {flags: passphraseSource{fd: 0}, in: "from stdin\nbody", want: "from stdin"},
		"command":              {flags: passphraseSource{fd: -1, shell: "printf 'one\\ntwo'"}, want: "one"},
		"environment":          {flags: none, env: "from env", want: "from env"},
		"option before env":    {flags: passphraseSource{fd: -1, File: file}, env: "from env", want: "from a file"},
		"configured":           {flags: none, conf: passphraseSource{Source: "command", Command: []string{"echo", "configured"}}, want: "configured"},
		"env before config":    {flags: none, env: "from env", conf: passphraseSource{Source: "file", File: file}, want: "from env"},
		"missing file":         {flags: passphraseSource{fd: -1, File: filepath.Join(s.dir, "nowhere")}, fails: true},
		"failing command":      {flags: passphraseSource{fd: -1, shell: "echo x; exit 1"}, fails: true},
		"empty line":           {flags: passphraseSource{fd: -1, shell: "echo"}, fails: true},
		"nothing on stdin":     {flags: passphraseSource{fd: 0}, fails: true},
		"command over the top": {flags: passphraseSource{fd: -1, shell: "head -c 9999 /dev/zero | tr '\\0' x"}, fails: true},
	} {
		o := s.io(c.in)
		delete(s.env, "ACE_PASSPHRASE")
		if c.env != "" {
			s.env["ACE_PASSPHRASE"] = c.env
		}
		a := &app{io: o, flags: flags{passphrase: c.flags}, conf: config{Passphrase: c.conf}}
		got, err := a.passphrase(context.Background(), "default")
		if string(got) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && !errors.Is(err, fault.IdentityUnavailable) {
			t.Errorf("%s: code %s", name, fault.CodeOf(err))
		}
		if _, left := s.env["ACE_PASSPHRASE"]; left && c.want == c.env {
			t.Errorf("%s: ACE_PASSPHRASE stays in the environment", name)
		}
	}
}

// TestInitAsks goes through ace init at a terminal.
func TestInitAsks(t *testing.T) {
	s := newStage(t)
	next := filepath.Join(s.dir, "usb-next-root")
	var asked strings.Builder
	typed := [][]byte{[]byte("correct horse"), []byte("correct horse"), nil}
	o := s.io("https://relay.example\n" + next + "\n")
	o.Err, o.InTTY, o.ErrTTY = &asked, true, true
	o.Password = func(context.Context) ([]byte, error) {
		p := typed[0]
		typed = typed[1:]
		return p, nil
	}
	if status := run(context.Background(), []string{"init", "--no-publish"}, o); status != exitOK {
		t.Fatalf("status %d: %s", status, asked.String())
	}
	for _, question := range []string{"Home relay", "File for the next root", "Passphrase for the identity default", "The same again", "Passphrase for the next root"} {
		if !strings.Contains(asked.String(), question) {
			t.Errorf("was not asked for: %s", question)
		}
	}
	if _, err := os.Stat(next); err != nil {
		t.Error(err)
	}
	if got := s.must("identity", "show", "--jq", ".relay, .encrypted"); got != "https://relay.example\ntrue" {
		t.Errorf("made: %s", got)
	}
}

// TestDifferentPassphrases makes nothing when the two do not agree.
func TestDifferentPassphrases(t *testing.T) {
	s := newStage(t)
	n := byte('a')
	o := s.io("\n\n")
	o.InTTY, o.ErrTTY = true, true
	o.Password = func(context.Context) ([]byte, error) { n++; return []byte{n}, nil }
	if status := run(context.Background(), []string{"init", "--no-publish"}, o); status != exitDeclined {
		t.Errorf("status %d", status)
	}
	if got := s.must("identity", "list", "--json"); got != "[]" {
		t.Errorf("made: %s", got)
	}
}
