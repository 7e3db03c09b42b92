package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

const (
	devTempPrefix = "ace-relay-" // of the temporary folders
	devDatabase   = "relay.db"
	lockEnding    = ".lock" // of the file that the process holds that has it open
	devLock       = devDatabase + lockEnding
	// devLockAge is how old the lock of a folder has to be before it is taken
	// to see whether a relay holds it: one that is just starting has not
	// locked it yet.
	devLockAge = 10 * time.Second
	readyLimit = 64 << 10 // bytes of a ready line
)

// checkReadyFile refuses to replace, and to remove at the end, what is anything
// but a ready line that a killed relay left, or an empty file.
func checkReadyFile(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // it is not there, or writing it says why it cannot be
	}
	if !info.Mode().IsRegular() {
		return usagef("--ready-file: %s is no ordinary file", path)
	}
	if info.Size() == 0 {
		return nil
	}
	var text []byte
	if info.Size() <= readyLimit {
		text, err = os.ReadFile(path)
	}
	var line relayReady
	if err != nil || json.Unmarshal(text, &line) != nil || line.Event != "ready" {
		return usagef("--ready-file: %s is there and holds something else than a ready line", path)
	}
	return nil
}

// writeReadyFile writes the ready line to the file of --ready-file and returns
// what removes it again, if it is still about this relay.
func (d *devRun) writeReadyFile() (remove func(), err error) {
	text, err := json.Marshal(d.ready)
	if err != nil {
		return nil, err
	}
	text = append(cleanJSON(text), '\n')
	path := d.o.readyFile
	if err := ownerfile.Write(path, text); err != nil {
		return nil, err
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, text) {
			os.Remove(path)
		}
	}, nil
}

// storeHeld returns the error lock_busy, which names the holder, when another
// process has the store in a folder open. It makes no store.
func storeHeld(data string, now int64) error {
	if data == "" {
		return nil // a folder of its own, yet to be made
	}
	db, err := filepath.EvalSymlinks(filepath.Join(data, devDatabase))
	if err != nil {
		return nil // there is no store
	}
	lock, err := ownerfile.Acquire(db+lockEnding, "ace relay", now)
	if err == nil {
		return lock.Release()
	}
	if fault.CodeOf(err) != fault.LockBusy {
		return nil
	}
	return err
}

// removeStaleData removes the temporary folders below dir of relays of this
// user that were killed.
func removeStaleData(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there will be another time
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), devTempPrefix) && e.IsDir() {
			removeStale(filepath.Join(dir, e.Name()))
		}
	}
}

// removeStale removes a folder that is this user's alone and whose lock nobody
// holds.
func removeStale(dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || ownerfile.CheckDir(dir) != nil {
		return
	}
	path := filepath.Join(dir, devLock)
	held, err := os.Lstat(path)
	if err != nil || !held.Mode().IsRegular() || time.Since(held.ModTime()) < devLockAge {
		return
	}
	lock, err := ownerfile.Acquire(path, "ace relay", time.Now().Unix())
	if err != nil {
		return // a relay runs there
	}
	removeData(dir)
	_ = lock.Release()
}

// removeData removes a temporary folder, its lock last: without one it would
// stay for good when this is killed halfway.
func removeData(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != devLock && os.RemoveAll(filepath.Join(dir, e.Name())) != nil {
			return
		}
	}
	os.RemoveAll(dir)
}
