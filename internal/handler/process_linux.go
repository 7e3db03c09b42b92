package handler

import (
	"runtime"
	"syscall"
)

// processGroup makes a run the leader of a group of its own, and ends it with this
// process: what dies with it is run again, and must not run twice at a time.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lockedToThread runs f on a thread that lives at least as long as f runs.
func lockedToThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}
