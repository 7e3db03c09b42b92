package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestColor goes through what decides whether an error has colour.
func TestColor(t *testing.T) {
	for name, c := range map[string]struct {
		tty    bool
		env    map[string]string
		config string
		args   []string
		want   bool
	}{
		"a pipe":                       {},
		"a terminal":                   {tty: true, want: true},
		"a dumb terminal":              {tty: true, env: map[string]string{"TERM": "dumb"}},
		"NO_COLOR":                     {tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"NO_COLOR without a value":     {tty: true, env: map[string]string{"NO_COLOR": ""}, want: true},
		"CLICOLOR_FORCE":               {env: map[string]string{"CLICOLOR_FORCE": "1"}, want: true},
		"CLICOLOR_FORCE=0":             {env: map[string]string{"CLICOLOR_FORCE": "0"}},
		"NO_COLOR wins over the other": {tty: true, env: map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}},
		"an option wins over NO_COLOR": {env: map[string]string{"NO_COLOR": "1"}, args: []string{"--color", "always"}, want: true},
		"never":                        {tty: true, args: []string{"--color=never"}},
		"its variable":                 {tty: true, env: map[string]string{"ACE_COLOR": "never"}},
		"the configuration":            {tty: true, config: `color = "never"`},
		"an option wins over that":     {config: `color = "never"`, args: []string{"--color", "always"}, want: true},
		"JSON has none":                {tty: true, args: []string{"--color", "always", "--json"}},
	} {
		s := newStage(t)
		for k, v := range c.env {
			s.env[k] = v
		}
		if c.config != "" {
			c.args = append(c.args, "--config", s.write("config.toml", c.config))
		}
		var stderr bytes.Buffer
		o := s.io("")
		o.Err, o.ErrTTY = &stderr, c.tty
		if status := run(context.Background(), append(c.args, "explain", "no such code"), o); status == exitOK {
			t.Fatalf("%s: no error", name)
		}
		if got := strings.Contains(stderr.String(), "\x1b["); got != c.want {
			t.Errorf("%s: %q", name, stderr.String())
		}
	}
	s := newStage(t)
	if r := s.try("version", "--color", "sometimes"); r.status != exitUsage || !strings.Contains(r.err, "--color is auto, always or never") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

// The titles of columns are bold on a terminal and as wide as without.
func TestColoredTitles(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--name", "alice")
	show := func(color string) string {
		var out bytes.Buffer
		o := s.io("")
		o.Out, o.OutTTY, o.Columns = &out, true, 200
		if status := run(context.Background(), []string{"profile", "list", "--color", color}, o); status != exitOK {
			t.Fatalf("status %d", status)
		}
		return out.String()
	}
	plain, bold := show("never"), show("always")
	first, rest, _ := strings.Cut(plain, "\n")
	if want := "\x1b[1m" + first + "\x1b[0m\n" + rest; bold != want || first == "" {
		t.Errorf("%q, want %q", bold, want)
	}
}
