package main

import (
	"fmt"
	"syscall"
)

// endWithParent lets the kernel kill a child when this program is gone, however
// that came about.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// dieWithParent is the same for this program and the one that has started it.
func dieWithParent() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
}

// tmpfs is the file system in memory, by its magic number.
const tmpfs = 0x01021994

// checkDisk refuses a folder in memory, where nothing can be made durable.
func checkDisk(dir string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	if s.Type == tmpfs {
		return fmt.Errorf("%s is in memory: name a folder on a disk with -dir", dir)
	}
	return nil
}
