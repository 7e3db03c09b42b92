package relaysvc

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// LoopbackURL returns the audience of a development relay that listens on the
// given address, 127.0.0.1 or [::1] (07#authentication).
// Code: invalid_argument.
func LoopbackURL(addr net.Addr) (string, error) {
	url := "http://" + addr.String()
	if wire.CheckRelayURL(url, wire.Development) != nil {
		return "", fault.New(fault.InvalidArgument, "a development relay listens on 127.0.0.1 or [::1], not on %s", addr)
	}
	return url, nil
}

// MoveOperations has GET /metrics and what is below GET /health answered on ln,
// and no longer where Serve answers everything else. GET /health itself is on
// both. Call it before Serve, which closes ln.
func (s *Server) MoveOperations(ln net.Listener) { s.ops = ln }

// Serve answers requests on ln until ctx ends or the operator asks for a drain,
// and closes ln. It then drains:
// GET /health and GET /health/ready say so while it still accepts, every
// stream gets an event that asks its client to reconnect, requests in progress
// finish, and Serve returns nil.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.bind(ln); err != nil {
		s.closeListeners(ln)
		return err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks.Go(func() { s.sweep(background) })
	if s.waker != nil {
		tasks.Go(func() { s.waker.run(background) })
	}

	ended := make(chan error, 2)
	server := s.httpServer(s.Handler())
	server.ConnState = s.connections.watch
	tasks.Go(func() { ended <- s.serveMain(server, &boundedListener{ln, s.connections, s.log}) })
	ops := s.httpServer(http.HandlerFunc(s.serveOps))
	if s.ops != nil {
		tasks.Go(func() { ended <- ops.Serve(s.ops) })
	}
	var failure error
	var asked Drain
	select {
	case failure = <-ended:
	case asked = <-s.drains:
	case <-s.db.Broken():
		// Nothing is stored any more, and what a new start finds may be less
		// than what this process believes.
		failure = s.db.Err()
		s.log.Error("the store failed", "error", failure)
	case <-ctx.Done():
	}
	s.log.Info("draining")
	// The operator's listener is the last to go: it tells how the drain does.
	return errors.Join(failure, s.drain(context.WithoutCancel(ctx), server, asked.or(s.config.Timeouts)), ops.Close())
}

// Draining returns a channel that closes when Serve begins to drain, whoever
// asked for that and also when it does so by itself.
func (s *Server) Draining() <-chan struct{} { return s.hub.drained }

// bind checks the listener of a development relay and, when no public URL is
// configured, takes the audience from it.
func (s *Server) bind(ln net.Listener) error {
	if !s.config.Development || s.config.Open && s.audience != "" {
		return nil
	}
	url, err := LoopbackURL(ln.Addr())
	if err != nil || s.audience != "" {
		return err
	}
	s.audience = url
	return s.db.SetHome(context.Background(), url)
}

func (s *Server) closeListeners(ln net.Listener) {
	ln.Close()
	if s.ops != nil {
		s.ops.Close()
	}
}

func (s *Server) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.config.Timeouts.Header,
		IdleTimeout:       s.config.Timeouts.Idle,
		WriteTimeout:      s.config.Timeouts.Body + s.config.Timeouts.Write,
		MaxHeaderBytes:    maxHeaderBytes,
		// OPTIONS * is no route either.
		DisableGeneralOptionsHandler: true,
		// What net/http has to say names addresses.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// serveMain serves the main listener: HTTP/1.1 and, over TLS, HTTP/2.
func (s *Server) serveMain(server *http.Server, ln net.Listener) error {
	if s.certificate == nil {
		return server.Serve(&refusingListener{ln, s.log})
	}
	return server.Serve(newTLSListener(ln, s.tlsConfig(), s.config.Timeouts.Header, s.log))
}

// drain ends the main listener: streams first, while new connections still
// find out that they should go elsewhere, and then what else is in progress.
func (s *Server) drain(ctx context.Context, server *http.Server, times Timeouts) error {
	s.hub.drain(times.Spread)
	ctx, cancel := context.WithTimeout(ctx, times.Drain)
	defer cancel()
	s.settle(ctx, times.Spread)
	err := server.Shutdown(ctx)
	s.endStreams(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were still in progress at the end of the drain")
		return server.Close()
	}
	return err
}

// endStreams waits until the streams are over, those too that have left their
// handler, and cuts off what is not in time.
func (s *Server) endStreams(ctx context.Context) {
	select {
	case <-s.hub.empty:
	case <-ctx.Done():
		s.hub.cut()
		<-s.hub.empty
	}
}

// settle waits until the clients of the streams have left, at most for the time
// over which they are asked to. It takes all of that where somebody watches
// whether the relay is ready, and needs some rounds to turn others away.
func (s *Server) settle(ctx context.Context, spread time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, spread)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for s.watched() || s.hub.count() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// count returns the number of open streams.
func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}
