package relayadmin

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// AuditLog is the append-only record of what the operator did. Its file has
// mode 0600 and one JSON object a line.
type AuditLog struct {
	mu   sync.Mutex
	file *os.File // guarded by mu
	next int64    // number of the next action of this process; guarded by mu
}

// auditLine is one line. An action has two with the same pid and action number:
// that it begins, and what became of it. One without the second was cut short.
type auditLine struct {
	At     int64  `json:"at"`
	PID    int    `json:"pid"`
	Number int64  `json:"number"`
	Action string `json:"action"`
	Target string `json:"target,omitempty"`
	// Request is what was asked for, where the action and the target leave that
	// open.
	Request json.RawMessage `json:"request,omitempty"`
	Outcome string          `json:"outcome"` // "begun", "done" or a code
}

// OpenAuditLog opens the log at path for appending, making it when it is
// missing. Code: storage_failed, also for a file that others can read.
func OpenAuditLog(path string) (*AuditLog, error) {
	if err := ownerfile.CheckFile(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := errors.Join(endLine(f), ownerfile.SyncDir(filepath.Dir(path))); err != nil {
		return nil, fault.Wrap(fault.StorageFailed, errors.Join(err, f.Close()))
	}
	return &AuditLog{file: f}, nil
}

// endLine ends a line that was cut short, so that the next one is its own.
func endLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

// Close closes the file.
func (l *AuditLog) Close() error { return fault.Wrap(fault.StorageFailed, l.file.Close()) }

// Record takes an action at a time between its two lines. One that cannot be
// recorded is not taken. Code: storage_failed, besides those of act.
func (l *AuditLog) Record(at int64, action, target string, act func() error) error {
	return l.record(auditLine{At: at, Action: action, Target: target}, act)
}

func (l *AuditLog) record(line auditLine, act func() error) error {
	l.mu.Lock()
	l.next++
	line.PID, line.Number, line.Outcome = os.Getpid(), l.next, "begun"
	err := l.append(line)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	result := act()
	line.Outcome = "done"
	if result != nil {
		line.Outcome = string(fault.CodeOf(result))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(line); err != nil && result == nil {
		return err
	}
	return result
}

// append writes one line durably. The caller holds mu.
func (l *AuditLog) append(line auditLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	if _, err := l.file.Write(append(text, '\n')); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, l.file.Sync())
}
