package relayadmin

import (
	"log/slog"
	"net"
	"os"
)

// ownersListener accepts from the relay's own user and from root. The folder
// and the mode of the socket keep others away; this holds also where somebody
// has opened those to them. From whoever is refused not a byte is read.
type ownersListener struct {
	net.Listener
	log *slog.Logger
}

// Accept waits for a connection of somebody who may speak.
func (l ownersListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil && mayAsk(uid, os.Geteuid()) {
			return c, nil
		}
		l.log.Warn("a connection to the admin socket was refused", "uid", uid, "error", err)
		c.Close() // after it is told: whoever sees the end finds the reason in the log
	}
}

// mayAsk reports whether a user may act on a relay of the user own.
func mayAsk(uid, own int) bool { return uid == own || uid == 0 }
