package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemd is what the service manager asks of this process: nothing, when it
// did not start it.
type systemd struct {
	socket   string        // to be told of states, "" for none
	watchdog time.Duration // between two signs of life at most, 0 for none
}

// systemd reads what the service manager asks for. Child processes are not
// asked the same.
func (a *app) systemd() systemd {
	s := systemd{socket: a.takeEnv("NOTIFY_SOCKET")}
	every, pid := a.takeEnv("WATCHDOG_USEC"), a.takeEnv("WATCHDOG_PID")
	if n, err := strconv.ParseInt(every, 10, 64); err == nil && n > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.watchdog = time.Duration(n) * time.Microsecond
	}
	return s
}

// takeEnv returns a variable of the environment and removes it.
func (a *app) takeEnv(name string) string {
	value := a.io.env(name)
	a.io.Unsetenv(name)
	return value
}

// tellPatience is how long the service manager may take to read what it was told
// before: one that hangs keeps no relay from ending.
const tellPatience = time.Second

// tell passes a state on, such as READY=1. Nobody can be told of a failure to.
func (s systemd) tell(state string) {
	if s.socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", s.socket) // @ begins an abstract name for net as well
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(tellPatience))
	_, _ = conn.Write([]byte(state))
}

// announceEnd says once that the relay ends: when it drains, or has ended
// without.
func (s systemd) announceEnd(draining, ended <-chan struct{}) {
	select {
	case <-draining:
	case <-ended:
	}
	s.tell("STOPPING=1")
}

// live gives signs of life until ctx ends, as long as probe comes back: what it
// says is for GET /health, and no reason to be restarted.
func (s systemd) live(ctx context.Context, probe func(context.Context) error) {
	if s.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(s.watchdog / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		in, cancel := context.WithTimeout(ctx, s.watchdog/3)
		_ = probe(in)
		if in.Err() == nil {
			s.tell("WATCHDOG=1")
		}
		cancel()
	}
}

// The first file descriptor that the service manager passes on, and the name
// of the socket for operations among them.
const (
	firstInherited = 3
	inheritedOps   = "ops"
)

// inheritedListeners returns the sockets that the service manager opened for
// this process: the main one and, by the name ops, that for operations. Both
// are nil when there is none.
func (a *app) inheritedListeners() (ln, ops net.Listener, err error) {
	pid, count, names := a.takeEnv("LISTEN_PID"), a.takeEnv("LISTEN_FDS"), a.takeEnv("LISTEN_FDNAMES")
	n, err := strconv.Atoi(count)
	if pid != strconv.Itoa(os.Getpid()) || err != nil {
		return nil, nil, nil
	}
	name := strings.Split(names, ":")
	for i := range n {
		got, err := inherited(firstInherited + i)
		into := &ln
		if i < len(name) && name[i] == inheritedOps {
			into = &ops
		}
		if err == nil && *into != nil {
			got.Close()
			err = fmt.Errorf("it is one too many")
		}
		if err != nil {
			closeAll(ln, ops)
			return nil, nil, usagef("file descriptor %d of the service manager: %v", firstInherited+i, err)
		}
		*into = got
	}
	return ln, ops, nil
}

func inherited(fd int) (net.Listener, error) {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	return net.FileListener(f)
}

func closeAll(listeners ...net.Listener) {
	for _, ln := range listeners {
		if ln != nil {
			ln.Close()
		}
	}
}
