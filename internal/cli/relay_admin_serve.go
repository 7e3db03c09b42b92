package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

// adminServer is the running admin socket of a relay.
type adminServer struct {
	socket string
	audit  *relayadmin.AuditLog
	cancel context.CancelFunc
	ended  chan error
}

// socketPath returns the path of a relay's admin socket: beside its store
// unless another is given. A path that is too long is an error of usage.
func socketPath(data, socket string) (string, error) {
	if socket == "" {
		socket = filepath.Join(data, adminSocket)
	}
	if err := relayadmin.CheckPath(socket); err != nil {
		return "", hintf(usagef("%v", err), "--admin-socket gives it a shorter one, in a folder of your own")
	}
	return socket, nil
}

// startAdmin serves the admin socket of a relay until it is stopped. The store
// is open by then, so that nobody else serves beside it.
func startAdmin(ctx context.Context, server *relaysvc.Server, data, socket string, log slog.Handler) (*adminServer, error) {
	audit, err := relayadmin.OpenAuditLog(filepath.Join(data, "audit.log"))
	if err != nil {
		return nil, err
	}
	ln, err := relayadmin.Listen(socket)
	if err != nil {
		return nil, errors.Join(err, audit.Close())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &adminServer{socket: socket, audit: audit, cancel: cancel, ended: make(chan error, 1)}
	go func() {
		s.ended <- relayadmin.Serve(ctx, ln, relayadmin.Relay{Operator: server.Operator(), Audit: audit, Log: log})
	}()
	return s, nil
}

// stop ends it. The relay calls it when it has drained: until then its
// operator can ask how that goes.
func (s *adminServer) stop() error {
	s.cancel()
	return errors.Join(<-s.ended, s.audit.Close())
}
