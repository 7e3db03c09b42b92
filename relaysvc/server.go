package relaysvc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
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
	// documents (02#relay-urls). Serve then listens on loopback only, unless
	// Open is set as well.
	Development bool
	// Open lets a development relay with a PublicURL listen on any address.
	Open bool
	// DBPath is the file of the store. Its folder has mode 0700 and is made
	// when it is missing.
	DBPath string
	// TrustedProxies are the addresses of reverse proxies whose
	// X-Forwarded-For header says who the client is. Default: none.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are PEM files with the certificate chain and its
	// key, which only its owner may be able to read. Serve then speaks TLS,
	// and follows the files when they change. Default: plain HTTP.
	TLSCert, TLSKey string
	// TLSKeyGuarded says that somebody else keeps other users from the file of
	// the key, as a service manager does that hands it over. Its mode is then
	// not looked at.
	TLSKeyGuarded bool
	// WakeGateways are the canonical relay URLs to which wake hints may be
	// sent, or AnyGateway or LoopbackGateways (07#wake-hints). Default: none,
	// and wake hints are not offered.
	WakeGateways []string
	// ReservedHandles are handles that nobody can claim, nor one that looks
	// like them (07#descriptors-and-cards). Default: none.
	ReservedHandles []string
	// Limits bound what the relay keeps and does for others.
	Limits Limits
	// Timeouts bound how long it waits for them.
	Timeouts Timeouts
	// Chaos makes a development relay unreliable on purpose. Default: nil, a
	// relay that does its best.
	Chaos *Chaos
	// Log takes what the operator should know: failures of the relay itself.
	// It never gets packets, identities or addresses. At the level info it
	// also gets a line for each request that was refused. Default: nothing is
	// logged.
	Log slog.Handler
	// LogMetadata adds to the line of a request the client network and, in
	// place of the caller's identity, a hash of it that is salted anew at each
	// start. Default: off.
	LogMetadata bool
	// Clock returns the time in Unix seconds. Default: the system clock.
	Clock func() int64
	// Elapsed returns the seconds that have passed since some moment, by a
	// clock that nobody sets. Where Clock runs ahead of it, nothing is
	// forgotten early: no packet, and no nonce. Default: the system's, and no
	// such bound for a Clock of one's own.
	Elapsed func() int64

	generation int64 // of a store that is made, for tests; 0: the time
}

// Timeouts are the times after which the relay gives up on a peer, or acts by
// itself.
type Timeouts struct {
	// Body and Write are a twelfth of that where others wait for the memory.
	Header    time.Duration // for the header of a request; 10 s
	Body      time.Duration // for the body of a request; 60 s
	Write     time.Duration // for a response or one event of a stream; 60 s
	Idle      time.Duration // of a connection between requests; 120 s
	Heartbeat time.Duration // between comment lines on a silent stream; 15 s
	Drain     time.Duration // for all that goes on when Serve is to end; 30 s
	Spread    time.Duration // of that for asking streams to reconnect, a few at a time; 10 s, none in development
	Sweep     time.Duration // between removals of what has expired; 60 s
	Wake      time.Duration // for one request to a wake gateway; 5 s
	// WakeInterval is the least time between two wakes of one identity, in
	// whole seconds; 30 s.
	WakeInterval time.Duration
}

// SetDefaults fills in what is zero.
func (t *Timeouts) SetDefaults(development bool) {
	spread := 10 * time.Second
	if development {
		spread = 0
	}
	for field, value := range map[*time.Duration]time.Duration{
		&t.Header: 10 * time.Second, &t.Body: 60 * time.Second, &t.Write: 60 * time.Second, &t.Idle: 120 * time.Second,
		&t.Heartbeat: 15 * time.Second, &t.Drain: 30 * time.Second, &t.Spread: spread, &t.Sweep: 60 * time.Second,
		&t.Wake: 5 * time.Second, &t.WakeInterval: 30 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
}

// Check validates c and fills in the defaults. It looks at no file. Code:
// invalid_argument.
func (c *Config) Check() error {
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
	if err := c.checkGateways(); err != nil {
		return err
	}
	for _, handle := range c.ReservedHandles {
		if !wire.IsHandle(handle) {
			return fault.New(fault.InvalidArgument, "reserved handle %.80q: not a handle", handle)
		}
	}
	if c.Chaos != nil {
		if !c.Development {
			return fault.New(fault.InvalidArgument, "chaos is for development")
		}
		if err := c.Chaos.check(); err != nil {
			return err
		}
	}
	c.Timeouts.SetDefaults(c.Development)
	if c.Timeouts.Spread >= c.Timeouts.Drain {
		return fault.New(fault.InvalidArgument, "the drain of %s leaves no time after its spread of %s", c.Timeouts.Drain, c.Timeouts.Spread)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fault.New(fault.InvalidArgument, "TLS takes a certificate and a key")
	}
	if c.TLSCert != "" && c.Timeouts.Heartbeat >= c.Timeouts.Write {
		// HTTP/2 ends a stream on which nothing was written for so long.
		return fault.New(fault.InvalidArgument, "with TLS, heartbeats every %s are too rare for a write timeout of %s", c.Timeouts.Heartbeat, c.Timeouts.Write)
	}
	if c.Clock == nil {
		if c.Elapsed == nil {
			c.Elapsed = Stopwatch()
		}
		c.Clock = func() int64 { return time.Now().Unix() }
	}
	if c.Log == nil {
		c.Log = slog.DiscardHandler
	}
	return nil
}

// Stopwatch returns a Config.Elapsed that counts from now by the system's
// monotonic clock.
func Stopwatch() func() int64 {
	start := time.Now()
	return func() int64 { return int64(time.Since(start) / time.Second) }
}

func (c *Config) urls() wire.URLPolicy {
	if c.Development {
		return wire.Development
	}
	return wire.Production
}

// hurry divides the time of a client for whose memory others wait.
const hurry = 12

// crewSize is the number of goroutines with a deep stack.
const crewSize = 8

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
	waker    *waker // nil where wake hints are not offered
	limiter  *limiter
	log      *slog.Logger
	drains   chan Drain // asked for by the operator

	bounds      atomic.Pointer[Limits] // see limits
	connections *connections           // of the main listener
	requests    atomic.Int64           // in progress over HTTP/2
	certificate *certificate           // nil without TLS
	ops         net.Listener           // see MoveOperations
	prober      prober
	forwarded   forwarded
	disk        *disk
	metrics     *metrics
	bodies      *memory // of requests
	pages       *memory // of answers and events for those who own the queue
	answers     *memory // of answers for anybody
	permits     *admission.PermitCache
	crew        *crew
	salt        []byte // of pseudonyms in the log
}

// New opens the store of a relay. Codes: invalid_argument (the configuration),
// storage_failed, lock_busy (another relay has the store open).
func New(c Config) (*Server, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Timeouts.Sweep = failpoint.Every(c.Timeouts.Sweep)
	s := &Server{
		config:      c,
		audience:    c.PublicURL,
		kels:        kel.NewCache(kelCacheEntries),
		states:      newStates(),
		bodies:      newMemory(c.Limits.BodyMemory, c.Timeouts.Body/hurry),
		pages:       newMemory(c.Limits.BodyMemory, c.Timeouts.Write/hurry),
		answers:     newMemory(c.Limits.BodyMemory, c.Timeouts.Write/hurry),
		permits:     admission.NewPermitCache(permitCacheEntries),
		hub:         newHub(c.Limits.StreamsPerIdentity, c.Limits.Streams),
		limiter:     newLimiter(),
		disk:        &disk{path: c.DBPath},
		log:         slog.New(c.Log),
		drains:      make(chan Drain, 1),
		connections: newConnections(places(c.Limits.Connections)),
		metrics:     newMetrics(c.Clock()),
		salt:        suite.RandomBytes(16),
	}
	s.bounds.Store(&c.Limits)
	var err error
	if c.TLSCert != "" {
		if s.certificate, err = openCertificate(c, s.log); err != nil {
			return nil, err
		}
	}
	if s.db, err = relaydb.OpenWith(context.Background(), c.DBPath, c.Clock(), s.storeOptions()); err != nil {
		return nil, err
	}
	s.crew = newCrew(crewSize)
	if err := s.db.SetHome(context.Background(), s.audience); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if c.offersWakes() {
		s.waker = newWaker(c, s.db, s.hub.listening, s.log, &s.metrics.wakes)
	}
	return s, nil
}

// storeOptions has the store tell the metrics and the log.
func (s *Server) storeOptions() relaydb.Options {
	return relaydb.Options{
		Generation: cmp.Or(s.config.generation, s.config.Clock()),
		Elapsed:    s.config.Elapsed,
		Observe:    s.metrics.committed,
		Damaged: func(reason string) {
			s.log.Error("a queued packet is not the one that was queued: put aside", "reason", reason)
		},
	}
}

// Close closes the store. Call it when Serve has returned.
func (s *Server) Close() error {
	s.hub.drain(0)
	s.hub.cut()
	<-s.hub.empty
	s.crew.close()
	defer s.prober.close()
	return s.db.Close()
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
