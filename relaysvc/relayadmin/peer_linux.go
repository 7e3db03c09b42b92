package relayadmin

import (
	"errors"
	"net"
	"syscall"
)

// unknownUID is that of a peer that the system does not name.
const unknownUID = -1

// peerUID returns the user whose process opened the other end of c, as the
// kernel noted it then.
func peerUID(c net.Conn) (uid int, err error) {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return unknownUID, errors.New("it is no connection of a Unix socket")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return unknownUID, err
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return unknownUID, err
	}
	return int(peer.Uid), nil
}
