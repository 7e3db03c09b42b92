package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a child, which the kernel kills
// when this process is gone, however that came about.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
