package ownerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// Lock is a lock that one process holds. The operating system releases it when
// the process ends, however it ends.
type Lock struct {
	f *os.File
}

// Acquire takes the lock of the given file, making the file if need be, and
// writes there who holds it: this process, the command line given and the time
// now in Unix seconds. It never waits: when another process holds the lock the
// error is lock_busy and names the holder. A file that others can open is refused:
// they could hold the lock.
func Acquire(path, command string, now int64) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := checkOpen(f); err != nil {
		f.Close()
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, busy(f)
	}
	if err == nil {
		err = writeHolder(f, fault.Holder{PID: os.Getpid(), Command: command, Since: now})
	}
	if err != nil {
		f.Close()
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	return &Lock{f: f}, nil
}

func writeHolder(f *os.File, h fault.Holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

func busy(f *os.File) error {
	e := fault.New(fault.LockBusy, "another process holds %s", f.Name())
	var h fault.Holder
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return e // the holder has not written its name yet
	}
	e.Holder = &h
	e.Msg += fmt.Sprintf(": pid %d (%q) since %s", h.PID, h.Command, time.Unix(h.Since, 0).UTC().Format(time.RFC3339))
	return e
}

// Release gives the lock back. The file stays: removing it would let two
// processes lock two files of one name.
func (l *Lock) Release() error {
	// The name of the past holder must not be read as that of the next one.
	err := l.f.Truncate(0)
	return fault.Wrap(fault.StorageFailed, errors.Join(err, l.f.Close()))
}
