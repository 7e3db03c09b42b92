package cli

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
)

// at returns an app whose user types the given text at a terminal.
func at(t *testing.T, typed string) (a *app, asked *strings.Builder) {
	o := newStage(t).io(typed)
	asked = &strings.Builder{}
	o.Err, o.InTTY, o.ErrTTY = asked, true, true
	return &app{io: o}, asked
}

func TestConfirm(t *testing.T) {
	for typed, want := range map[string]int{
		"y\n": exitOK, "YES\n": exitOK, " Y \n": exitOK, "n\n": exitDeclined, "\n": exitDeclined, "": exitDeclined, "yep\n": exitDeclined,
	} {
		a, asked := at(t, typed)
		if got := exitOf(a.confirm(context.Background(), "Go?")); got != want {
			t.Errorf("%q: status %d, want %d", typed, got, want)
		}
		if !strings.HasPrefix(asked.String(), "Go? (y/N): ") {
			t.Errorf("asked %q", asked)
		}
	}
	a, asked := at(t, "y\n")
	a.flags.noInput = true
	if got := exitOf(a.confirm(context.Background(), "Go?")); got != exitDeclined || asked.Len() > 0 {
		t.Errorf("--no-input: status %d, asked %q", got, asked)
	}
}

// TestConfirmName: what is lost is named, by typing it or beside --yes.
func TestConfirmName(t *testing.T) {
	for _, c := range []struct {
		typed, given  string
		yes, noInput  bool
		want          int
		asked, hinted string
	}{
		{"store\n", "", false, false, exitOK, "Go? Type store", ""},
		{"stor\n", "", false, false, exitDeclined, "Go? Type store", "that was not store: nothing was changed"},
		{"\n", "", false, false, exitDeclined, "Go? Type store", "that was not store: nothing was changed"},
		{"", "store", true, false, exitOK, "", ""},
		{"store\n", "other", true, false, exitDeclined, "", "give --yes and --confirm store"},
		{"store\n", "", true, false, exitDeclined, "", "give --yes and --confirm store"},
		{"store\n", "store", false, false, exitDeclined, "", "give --yes and --confirm store"},
		{"store\n", "", false, true, exitDeclined, "", "give --yes and --confirm store"},
	} {
		a, asked := at(t, c.typed)
		a.flags.yes, a.flags.noInput = c.yes, c.noInput
		err := a.confirmName(context.Background(), "Go?", "store", c.given)
		if got := exitOf(err); got != c.want || !strings.HasPrefix(asked.String(), c.asked) || c.asked == "" && asked.Len() > 0 {
			t.Errorf("%+v: status %d, asked %q", c, got, asked)
		}
		if err != nil && newReport(err, "").Hint != c.hinted {
			t.Errorf("%+v: hint %q", c, newReport(err, "").Hint)
		}
	}
}

// TestSignalEndsAQuestion: nobody has to answer before a command can be ended.
func TestSignalEndsAQuestion(t *testing.T) {
	typed, terminal := io.Pipe()
	defer terminal.Close() // ends the read
	for name, ask := range map[string]func(*app, context.Context) error{
		"question":   func(a *app, ctx context.Context) error { return a.confirm(ctx, "Go?") },
		"descriptor": func(a *app, ctx context.Context) error { _, err := readDescriptor(ctx, 0, a.io); return err },
	} {
		a, _ := at(t, "")
		a.io.In = typed
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(signalError(syscall.SIGINT))
		if got := exitOf(ask(a, ctx)); got != exitInterrupted {
			t.Errorf("%s: status %d", name, got)
		}
	}
}
