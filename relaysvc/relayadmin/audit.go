package relayadmin

import (
	"encoding/json"
	"os"
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
	At      int64  `json:"at"`
	PID     int    `json:"pid"`
	Number  int64  `json:"number"`
	Action  string `json:"action"`
	Target  string `json:"target,omitempty"`
	Outcome string `json:"outcome"` // "begun", "done" or a code
}

// OpenAuditLog opens the log at path for appending, making it when it is
// missing. Code: storage_failed, also for a file that others can read.
func OpenAuditLog(path string) (*AuditLog, error) {
	if err := ownerfile.CheckFile(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	return &AuditLog{file: f}, nil
}

// Close closes the file.
func (l *AuditLog) Close() error { return fault.Wrap(fault.StorageFailed, l.file.Close()) }

// record takes an action between its two lines. An action that cannot be
// recorded is not taken. Code: storage_failed, besides those of act.
func (l *AuditLog) record(at int64, action, target string, act func() error) error {
	l.mu.Lock()
	l.next++
	line := auditLine{At: at, PID: os.Getpid(), Number: l.next, Action: action, Target: target, Outcome: "begun"}
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
