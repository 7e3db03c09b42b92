package relaysvc

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// Config is what an operator decides. The zero value of a field is its
// default, where one is named.
type Config struct {
	// PublicURL is the canonical URL under which clients reach the relay. It
	// is the audience of every authenticated request, and never taken from
	// one (07#authentication). Required, except in development, where Serve
	// takes it from the socket when it is empty.
	PublicURL string
	// Development accepts http URLs with a loopback host as PublicURL and in
	// documents (02#relay-urls). Serve then listens on loopback only.
	Development bool
	// DBPath is the file of the store. Its folder has mode 0700 and is made
	// when it is missing.
	DBPath string
	// TrustedProxies are the addresses of reverse proxies whose
	// X-Forwarded-For header says who the client is. Default: none.
	TrustedProxies []netip.Prefix
	// Limits bound what the relay keeps and does for others.
	Limits Limits
	// Timeouts bound how long it waits for them.
	Timeouts Timeouts
	// Log takes what the operator should know: failures of the relay itself.
	// It never gets packets, identities or addresses. Default: nothing is
	// logged.
	Log slog.Handler
	// Clock returns the time in Unix seconds. Default: the system clock.
	Clock func() int64
}

// Timeouts are the times after which the relay gives up on a peer, or acts by
// itself.
type Timeouts struct {
	Header    time.Duration // for the header of a request; 10 s
	Body      time.Duration // for the body of a request; 60 s
	Write     time.Duration // for a response or one event of a stream; 60 s
	Idle      time.Duration // of a connection between requests; 120 s
	Heartbeat time.Duration // between comment lines on a silent stream; 15 s
	Drain     time.Duration // for requests in progress when Serve ends; 20 s
	Sweep     time.Duration // between removals of what has expired; 60 s
}

func (t *Timeouts) setDefaults() {
	for field, value := range map[*time.Duration]time.Duration{
		&t.Header: 10 * time.Second, &t.Body: 60 * time.Second, &t.Write: 60 * time.Second, &t.Idle: 120 * time.Second,
		&t.Heartbeat: 15 * time.Second, &t.Drain: 20 * time.Second, &t.Sweep: 60 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
}

// check validates c and fills in the defaults.
func (c *Config) check() error {
	if c.DBPath == "" {
		return fault.New(fault.InvalidArgument, "no path of a store")
	}
	if c.PublicURL == "" && !c.Development {
		return fault.New(fault.InvalidArgument, "no public URL: it is the audience that clients sign for")
	}
	if c.PublicURL != "" {
		if err := wire.CheckRelayURL(c.PublicURL, c.urls()); err != nil {
			return fault.Wrapf(fault.InvalidArgument, err, "public URL")
		}
	}
	if err := c.Limits.check(); err != nil {
		return err
	}
	c.Timeouts.setDefaults()
	if c.Clock == nil {
		c.Clock = func() int64 { return time.Now().Unix() }
	}
	if c.Log == nil {
		c.Log = slog.DiscardHandler
	}
	return nil
}

func (c *Config) urls() wire.URLPolicy {
	if c.Development {
		return wire.Development
	}
	return wire.Production
}

// kelCacheEntries bounds the verified logs kept in memory, of some 100 KB each.
const kelCacheEntries = 512

// Server is a relay with its store open.
type Server struct {
	config   Config
	audience string // canonical public URL; set before the first request
	db       *relaydb.DB
	kels     *kel.Cache // of the logs in documents
	states   *states    // of the logs in the store
	hub      *hub
	limiter  *limiter
	log      *slog.Logger
}

// New opens the store of a relay. Codes: invalid_argument (the configuration),
// storage_failed, lock_busy (another relay has the store open).
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	db, err := relaydb.Open(context.Background(), c.DBPath, c.Clock())
	if err != nil {
		return nil, err
	}
	return &Server{
		config:   c,
		audience: c.PublicURL,
		db:       db,
		kels:     kel.NewCache(kelCacheEntries),
		states:   newStates(),
		hub:      newHub(c.Limits.StreamsPerIdentity, c.Limits.Streams),
		limiter:  newLimiter(),
		log:      slog.New(c.Log),
	}, nil
}

// Close closes the store. Call it when Serve has returned.
func (s *Server) Close() error { return s.db.Close() }

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

// Serve answers requests on ln until ctx ends, and closes ln. It then drains:
// GET /health says so, every stream gets an event that asks its client to
// reconnect, requests in progress finish, and Serve returns nil.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.bind(ln); err != nil {
		ln.Close()
		return err
	}
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.config.Timeouts.Header,
		IdleTimeout:       s.config.Timeouts.Idle,
		WriteTimeout:      s.config.Timeouts.Body + s.config.Timeouts.Write,
		MaxHeaderBytes:    maxHeaderBytes,
		// OPTIONS * is no route either.
		DisableGeneralOptionsHandler: true,
		// What net/http has to say names addresses.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks.Go(func() { s.sweep(sweeping) })

	ended := make(chan error, 1)
	tasks.Go(func() { ended <- server.Serve(ln) })
	var failure error
	select {
	case failure = <-ended:
	case <-ctx.Done():
	}
	s.log.Info("draining")
	return errors.Join(failure, s.shutDown(context.WithoutCancel(ctx), server))
}

// bind checks the listener of a development relay and, when no public URL is
// configured, takes the audience from it.
func (s *Server) bind(ln net.Listener) error {
	if !s.config.Development {
		return nil
	}
	url, err := LoopbackURL(ln.Addr())
	if err == nil && s.audience == "" {
		s.audience = url
	}
	return err
}

func (s *Server) shutDown(ctx context.Context, server *http.Server) error {
	s.hub.drain()
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeouts.Drain)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were still in progress at the end of the drain")
		return server.Close()
	}
	return err
}

// sweep removes what has expired, again and again until ctx ends.
func (s *Server) sweep(ctx context.Context) {
	ticker := time.NewTicker(s.config.Timeouts.Sweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := s.config.Clock()
		s.limiter.forget(now)
		if err := s.db.Sweep(ctx, now); err != nil && ctx.Err() == nil {
			s.log.Error("sweep failed", "error", err)
		}
	}
}

// descriptorOptions are those of every document that is published here.
func (s *Server) descriptorOptions() descriptor.Options {
	return descriptor.Options{URLs: s.config.urls(), KELs: s.kels}
}

func (s *Server) registrationOptions() relayapi.Options {
	return relayapi.Options{URLs: s.config.urls(), KELs: s.kels}
}
