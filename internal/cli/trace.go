package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/relayclient"
)

// traceToError is --trace without a file.
const traceToError = "-"

// tracer writes what a command does, one JSON object a line. Nothing of a header,
// a body, an argument or a key gets there.
type tracer struct {
	began time.Time

	mu   sync.Mutex
	w    io.Writer // guarded by mu
	file *os.File  // nil for standard error
}

// The lines of a trace. At is in Unix seconds, took in milliseconds.
type (
	traceStep struct {
		Trace    string `json:"trace"` // begin, open
		At       int64  `json:"at"`
		PID      int    `json:"pid"`
		Command  string `json:"command"`
		Identity string `json:"identity,omitempty"`
		Relay    string `json:"relay,omitempty"`
	}
	traceRequest struct {
		Trace      string `json:"trace"` // request
		At         int64  `json:"at"`
		PID        int    `json:"pid"`
		Method     string `json:"method"`
		Relay      string `json:"relay"`
		Path       string `json:"path"`
		Action     string `json:"action,omitempty"`
		SentBytes  int    `json:"sent_bytes"`
		Kept       bool   `json:"kept_connection"`
		Status     int    `json:"status"`
		Code       string `json:"code,omitempty"`
		RelayError string `json:"relay_error,omitempty"`
		Message    string `json:"message,omitempty"`
		Took       int64  `json:"took_ms"`
	}
	traceEnd struct {
		Trace string `json:"trace"` // end
		At    int64  `json:"at"`
		PID   int    `json:"pid"`
		Exit  int    `json:"exit"`
		Code  string `json:"code,omitempty"`
		Took  int64  `json:"took_ms"`
	}
)

// openTrace begins the trace that --trace asks for. A file is made for its owner
// alone, and added to.
func (a *app) openTrace() error {
	path := a.flags.trace
	if path == "" || a.tracer != nil {
		return nil
	}
	t := &tracer{began: time.Now(), w: a.io.Err}
	if path != traceToError {
		f, err := ownerfile.Append(path)
		if err != nil {
			return hintf(err, "--trace=FILE needs a file that you alone can read")
		}
		t.w, t.file = f, f
	}
	a.tracer = t
	t.write(traceStep{Trace: "begin", At: a.io.Now(), PID: os.Getpid(), Command: a.command})
	return nil
}

// traceOpened notes that an identity was opened.
func (a *app) traceOpened(id *identity, relay string) {
	if a.tracer != nil {
		a.tracer.write(traceStep{Trace: "open", At: a.io.Now(), PID: os.Getpid(), Command: a.command, Identity: id.name, Relay: relay})
	}
}

// traceRequests returns what is told of each request, nil when nobody wants to
// know.
func (a *app) traceRequests() func(relayclient.Exchange) {
	if a.tracer == nil {
		return nil
	}
	return func(e relayclient.Exchange) {
		line := traceRequest{
			Trace: "request", At: a.io.Now(), PID: os.Getpid(), Method: e.Method, Relay: e.Relay, Path: e.Path, Action: e.Action,
			SentBytes: e.Sent, Kept: e.Kept, Status: e.Status, Took: e.Took.Milliseconds(),
		}
		if e.Err != nil {
			line.Code, line.Message = string(fault.CodeOf(e.Err)), e.Err.Error()
			var f *fault.Error
			if errors.As(e.Err, &f) {
				line.RelayError = f.Remote
			}
		}
		a.tracer.write(line)
	}
}

// endTrace notes how a command ended.
func (a *app) endTrace(err error, status int) {
	t := a.tracer
	if t == nil {
		return
	}
	t.write(traceEnd{Trace: "end", At: a.io.Now(), PID: os.Getpid(), Exit: status, Code: string(fault.CodeOf(err)), Took: time.Since(t.began).Milliseconds()})
	if t.file != nil {
		t.file.Close() // each line was written already
	}
	a.tracer = nil
}

// write writes a line. A trace that cannot be written is no reason to fail.
func (t *tracer) write(line any) {
	data, err := json.Marshal(line)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s\n", cleanJSON(data))
}
