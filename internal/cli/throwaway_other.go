//go:build !linux

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a child.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
