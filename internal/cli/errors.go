package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/keystore"
)

// hinted is an error with the next step to take.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// hintf adds the next step to an error. It returns nil for a nil err.
func hintf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// withHint is hintf for an error that may have a better hint already.
func withHint(err error, format string, args ...any) error {
	var h *hinted
	if errors.As(err, &h) {
		return err
	}
	return hintf(err, format, args...)
}

// report is the JSON form of an error.
type report struct {
	Code       string        `json:"code"`
	Category   string        `json:"category"`
	Retryable  bool          `json:"retryable"`
	Exit       int           `json:"exit"`
	Message    string        `json:"message"`
	Hint       string        `json:"hint,omitempty"`
	Relay      *relayReport  `json:"relay,omitempty"`
	RetryAfter *int64        `json:"retry_after_s"`
	RemoteCode *string       `json:"remote_code"`
	Reason     string        `json:"reason,omitempty"` // of this host
	Holder     *fault.Holder `json:"holder,omitempty"`
	Command    string        `json:"command,omitempty"`
	ReportID   string        `json:"report_id,omitempty"`
}

type relayReport struct {
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
}

// newReport describes an error of a command.
func newReport(err error, command string) report {
	r := report{Exit: exitOf(err), Message: clean(strings.ReplaceAll(err.Error(), "\n", "; "), false), Command: command}
	var s *statusError
	switch code := fault.CodeOf(err); {
	case code != "":
		r.Code, r.Category, r.Retryable = string(code), string(code.Category()), code.Retryable()
	case errors.As(err, &s):
		r.Code, r.Category, r.Retryable = s.code, string(s.category()), s.code != codeDeclined
	default:
		r.Code, r.Category, r.Retryable, r.ReportID = codeInternal, string(fault.Local), true, suite.NewMessageID()[:8]
	}
	var e *fault.Error
	if errors.As(err, &e) {
		r.Holder = e.Holder
		if e.Status != 0 {
			r.Relay = &relayReport{Status: e.Status, Error: clean(e.Remote, false)}
		} else if e.Remote != "" {
			remote := clean(e.Remote, false)
			r.RemoteCode = &remote
		}
		if e.RetryAfter > 0 {
			r.RetryAfter = &e.RetryAfter
		}
	}
	r.Reason = reasonOf(err)
	r.Hint = hintFor(err, r)
	return r
}

// hintFor returns the next step: the one the error comes with, or what helps
// with the code that the other side stated, or with our own.
func hintFor(err error, r report) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	if errors.Is(err, keystore.ErrReplaced) {
		return "run the command again: it then signs with the new key"
	}
	if errors.Is(err, kel.ErrDelegationEnded) {
		return "see whether the clock is right; then ace identity delegate makes a new signing key"
	}
	if errors.Is(err, keystore.ErrUnsettled) {
		return "ace publish compares it; without its relay, ace identity recover takes the identity back with the next root"
	}
	if errors.Is(err, keystore.ErrLogChanged) {
		return "nothing was done here: see what another process did with ace identity log, then run it again"
	}
	if errors.Is(err, keystore.ErrNoBackup) {
		return "name the file that ace identity backup create has written; a descriptor or a log is checked with ace descriptor verify and ace kel verify"
	}
	if errors.Is(err, core.ErrWithdrawn) {
		return "ace publish registers it again"
	}
	if r.Holder != nil && r.Holder.PID > 0 {
		return fmt.Sprintf("wait for that process, or end it in good order: kill %d", r.Holder.PID)
	}
	if r.Exit == exitUsage {
		return "" // the message says it all
	}
	code := r.Code
	switch {
	case r.Relay != nil:
		code = r.Relay.Error
	case r.RemoteCode != nil:
		code = *r.RemoteCode
	}
	e, ok := explanationOf(code)
	if !ok {
		e, _ = explanationOf(r.Code)
	}
	return e.Do
}

// printError writes an error to standard error: one JSON line, or one line of
// text and a hint.
func (a *app) printError(err error) {
	r := newReport(err, a.command)
	if a.flags.json {
		line, _ := json.Marshal(map[string]report{"error": r})
		fmt.Fprintf(a.io.Err, "%s\n", line)
		return
	}
	fmt.Fprintf(a.io.Err, "%s %s (%s)\n", a.paint(inkError, "ace:", a.io.ErrTTY), r.Message, r.Code)
	if r.ReportID != "" {
		fmt.Fprintf(a.io.Err, "report id: %s\n", r.ReportID)
	}
	if r.Hint != "" {
		fmt.Fprintf(a.io.Err, "%s %s\n", a.paint(inkHint, "hint:", a.io.ErrTTY), r.Hint)
	}
}

// warn writes a warning to standard error, unless --quiet asks for silence.
func (a *app) warn(format string, args ...any) {
	if a.flags.quiet {
		return
	}
	text := clean(fmt.Sprintf(format, args...), true) // an error may have a relay's words
	if a.flags.json {
		line, _ := json.Marshal(map[string]string{"warning": text})
		fmt.Fprintf(a.io.Err, "%s\n", line)
		return
	}
	fmt.Fprintf(a.io.Err, "%s %s\n", a.paint(inkWarning, "warning:", a.io.ErrTTY), text)
}

// say writes progress to standard error, where --quiet and --json leave room
// for it.
func (a *app) say(format string, args ...any) {
	if !a.flags.quiet && !a.flags.json {
		fmt.Fprintln(a.io.Err, clean(fmt.Sprintf(format, args...), true))
	}
}
