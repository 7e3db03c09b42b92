package relayadmin_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

// TestOnlyItsOwnerAndRootMaySpeak opens a socket to everybody and asks as
// another user, which is nothing but a thread that gives its rights away: only
// root can.
func TestOnlyItsOwnerAndRootMaySpeak(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("", "ace-peer-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "admin.sock")
	ln, err := relayadmin.Listen(path)
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(path, 0o666))
	log, err := os.Create(filepath.Join(t.TempDir(), "log")) // which is read while others write
	must(t, err)
	defer log.Close()
	logged := func() string {
		text, err := os.ReadFile(log.Name())
		must(t, err)
		return string(text)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	r := start(t)
	go func() {
		ended <- relayadmin.Serve(serving, ln, relayadmin.Relay{Operator: r.operator, Log: slog.NewTextHandler(log, nil)})
	}()
	defer func() { stop(); must(t, <-ended) }()

	const stranger = 4711
	as := func(uid int) error {
		conn, err := dialAs(path, uid)
		must(t, err)
		c := relayadmin.NewClientOn(path, conn)
		defer c.Close()
		_, err = c.Status(ctx)
		return err
	}
	if err := as(stranger); fault.CodeOf(err) != fault.RelayUnavailable || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a stranger: %v", err)
	}
	if got := logged(); !strings.Contains(got, "refused") || !strings.Contains(got, "uid=4711") {
		t.Errorf("the log has %q", got)
	}
	must(t, as(0)) // and the socket serves on
	if got := strings.Count(logged(), "\n"); got != 1 {
		t.Errorf("the log has %d lines", got)
	}
}

// dialAs connects to a socket as another user.
func dialAs(path string, uid int) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			err = errno
			return
		}
		c, err = net.Dial("unix", path)
	}()
	<-done
	return c, err
}
