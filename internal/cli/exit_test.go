package cli

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// protocolCodes reads the constants of core/fault, so that a new code cannot be
// forgotten here.
func protocolCodes(t *testing.T) []fault.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../core/fault/codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []fault.Code
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, fault.Code(text))
		return true
	})
	if len(codes) < 30 {
		t.Fatalf("only %d codes found", len(codes))
	}
	return codes
}

func TestEveryCodeHasAStatusAndAnExplanation(t *testing.T) {
	for _, code := range protocolCodes(t) {
		rows := 0
		for _, row := range exitTable() {
			for _, c := range row.Codes {
				if c == code {
					rows++
				}
			}
		}
		if rows != 1 {
			t.Errorf("%s is in %d rows of the exit table", code, rows)
		}
		status := exitOf(fault.New(code, "x"))
		decade := map[fault.Category]int{fault.Permanent: 1, fault.Transient: 2, fault.Local: 3}[code.Category()]
		if status/10 != decade {
			t.Errorf("%s is %s and exits with %d", code, code.Category(), status)
		}
		if _, ok := explanationOf(string(code)); !ok {
			t.Errorf("%s has no explanation", code)
		}
	}
	for code := range relayapi.Statuses() {
		if _, ok := explanationOf(string(code)); !ok {
			t.Errorf("the relay's %s has no explanation", code)
		}
	}
	if r := newReport(errDeadline, ""); r.Category != string(fault.Transient) || r.Exit/10 != 2 || !r.Retryable {
		t.Errorf("the deadline is %s and exits with %d", r.Category, r.Exit)
	}
	for _, code := range []string{codeInternal, codeDeadline, codeInterrupted, codeDeclined, codeEmpty, handlerFailed} {
		if _, ok := explanationOf(code); !ok {
			t.Errorf("%s has no explanation", code)
		}
	}
	seen := map[string]bool{}
	for _, e := range explanations() {
		if seen[e.Code] || e.Meaning == "" || e.Do == "" {
			t.Errorf("explanation of %s is incomplete or there twice", e.Code)
		}
		seen[e.Code] = true
	}
}

// TestHintOfALapsedKey: nobody who has an identity is told to make one.
func TestHintOfALapsedKey(t *testing.T) {
	err := fault.Wrap(fault.IdentityUnavailable, fmt.Errorf("%w at 5", kel.ErrDelegationEnded))
	if r := newReport(err, ""); !strings.Contains(r.Hint, "ace identity delegate") || strings.Contains(r.Hint, "ace init") {
		t.Errorf("the hint is %q", r.Hint)
	}
}

func TestExitOf(t *testing.T) {
	slow := fault.New(fault.RelayUnavailable, "busy")
	slow.RetryAfter = 7
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"nothing":           {nil, 0},
		"no code":           {errors.New("x"), exitBug},
		"usage":             {usagef("x"), exitUsage},
		"wrapped":           {fmt.Errorf("x: %w", fault.New(fault.KELConflict, "y")), exitNotAuthentic},
		"hinted":            {hintf(usagef("x"), "y"), exitUsage},
		"transient, a time": {slow, exitTransientAt},
		"deadline":          {hintf(errDeadline, "x"), exitDeadline},
		"a profile's code":  {fault.New("budget_exceeded", "x"), exitPermanent},
		"SIGINT":            {signalError(syscall.SIGINT), exitInterrupted},
		"SIGTERM":           {signalError(syscall.SIGTERM), exitTerminated},
	} {
		if got := exitOf(c.err); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
}

// TestWorstStatus orders one status of each kind, the worst first.
func TestWorstStatus(t *testing.T) {
	order := []int{exitBug, exitNotAuthentic, exitNoPeer, exitStorage, exitTransient, exitOK}
	for i := range order[1:] {
		if !worse(order[i], order[i+1]) || worse(order[i+1], order[i]) {
			t.Errorf("%d is not worse than %d", order[i], order[i+1])
		}
	}
}

// TestSignalEndsACommand cancels a command as the first signal does. The bare
// relay URL answers nothing, so the command fails by itself otherwise.
func TestSignalEndsACommand(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish", "--relay", "http://127.0.0.1:9", "--allow-loopback")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(signalError(syscall.SIGTERM))
	o := s.io("")
	var stderr strings.Builder
	o.Err = &stderr
	if status := run(ctx, []string{"publish", "--json"}, o); status != exitTerminated {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if !strings.Contains(stderr.String(), `"code":"interrupted"`) {
		t.Errorf("error: %s", stderr.String())
	}
}

// failingWriter fails with the given error.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestStandardOutputFails(t *testing.T) {
	for err, want := range map[error]int{syscall.EPIPE: exitOK, syscall.ENOSPC: exitStorage} {
		for _, args := range [][]string{{"version"}, {"version", "--json"}, {"help", "exit-codes"}, {"man"}, {"completion", "bash"}} {
			o := newStage(t).io("")
			o.Out = failingWriter{err}
			if got := run(context.Background(), args, o); got != want {
				t.Errorf("ace %s with %v: status %d, want %d", args, err, got, want)
			}
		}
	}
}

// TestPanic shows that a bug is reported with an id and never as success.
func TestPanic(t *testing.T) {
	s := newStage(t)
	var stderr strings.Builder
	o := s.io("")
	o.Err = &stderr
	o.Now = nil // identity show reads the clock
	s.must("init", "--yes", "--no-publish")
	if status := run(context.Background(), []string{"identity", "show"}, o); status != exitBug {
		t.Errorf("status %d", status)
	}
	if !strings.Contains(stderr.String(), "report id: ") {
		t.Errorf("error: %s", stderr.String())
	}
}

// TestSignalKeepsTheNextStep: somebody who interrupts ace send --wait must not
// be told to run it again, which would queue a second message.
func TestSignalKeepsTheNextStep(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(signalError(syscall.SIGINT))
	err := causeOf(ctx, hintf(context.Canceled, "the message is queued"))
	if r := newReport(err, ""); r.Exit != exitInterrupted || r.Hint != "the message is queued" {
		t.Errorf("%+v", r)
	}
	timedOut := newReport(causeOf(context.Background(), fmt.Errorf("x: %w", context.DeadlineExceeded)), "")
	if timedOut.Exit != exitTransient || !timedOut.Retryable {
		t.Errorf("%+v", timedOut)
	}
}

// TestExitStatuses spells the promised statuses out once more: a script relies
// on them, so a change of the table has to be made twice.
func TestExitStatuses(t *testing.T) {
	want := map[int]string{
		10: "invalid_packet unsupported_version wrong_recipient stale_timestamp unsupported_schema invalid_body decryption_failed unknown_prekey replay_horizon relay_rejected invalid_argument budget_exceeded",
		11: "unknown_peer",
		12: "not_permitted not_registered",
		13: "invalid_signature invalid_authorization invalid_kel kel_conflict stale_peer_binding stale_descriptor",
		14: "delivery_rejected",
		15: "expired",
		16: "blocked_address",
		20: "relay_unavailable relay_protocol_error fetch_failed",
		31: "lock_busy",
		32: "identity_unavailable",
		33: "storage_failed",
		34: "receiver_capacity",
		35: "thread_busy",
	}
	codes := 0
	for status, names := range want {
		for name := range strings.FieldsSeq(names) {
			codes++
			if got := exitOf(fault.Code(name)); got != status {
				t.Errorf("%s: status %d, want %d", name, got, status)
			}
		}
	}
	if known := len(protocolCodes(t)); codes < known {
		t.Errorf("%d codes spelled out, of %d", codes, known)
	}
}
