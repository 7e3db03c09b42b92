// Package core is the endpoint of ACE: one local identity, its durable store,
// and the operations an agent performs over relays.
//
// An identity comes from package keystore, which keeps its keys, or from
// [kel.Ephemeral] for a test. Start with [Open], then [Endpoint.Publish]. A peer
// is found with [Endpoint.Resolve] and [Endpoint.Lookup] and asked with
// [Endpoint.Connect]. Messages go out with [Endpoint.Enqueue] and
// [Endpoint.Attempt], and come in with [Endpoint.Pull] or [Endpoint.Listen]; the
// rest reads what the store holds. The examples begin there. Every failure
// carries a code of 06#error-codes.
//
// The endpoint owns the clock: it reads it once for each operation, and once
// for each packet it receives. The root key is never needed here.
package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Config says who the endpoint is and how it behaves. Identity is required.
type Config struct {
	Identity *kel.Identity
	// StorePath is the SQLite file, in a folder of mode 0700. Without one ("")
	// the store is in memory: for tests, and for agents that end with their
	// process, whose peers then send to nobody.
	StorePath string
	VaultKey  *suite.Seed // seals prekey seeds in the store; required with StorePath
	// Relay is the canonical URL of the home relay. Its owner configured it, so
	// the blocked-address policy does not apply to it. Without one ("") the
	// endpoint can do what needs only the store.
	Relay string

	Profiles []*profile.Manifest // enabled besides core, announced in the descriptor
	// Rules are those of third-party profiles. The rules of official ones are
	// followed when the profile is enabled (08#profile-rules).
	Rules []profile.Rule
	// Accept lists the acceptProfiles rules: profile ID -> profile digest
	// (05#flow step 2).
	Accept map[string]string
	// Card is what the card record says: Handle, Card, Pay, ERC8004, Contact
	// ("open" or, by default, "closed") and Listed. The endpoint sets the rest.
	Card descriptor.CardRecord
	// Ext is what the descriptor says in ext, by profile ID, null for nothing
	// (04#extensions). A credential in it is left out once its time is over.
	Ext wire.Value
	// Loopback allows http and relays on loopback, also those of descriptors:
	// for development.
	Loopback bool
	Clock    func() int64 // Unix seconds; nil: the system clock
	// PeersAtOnce bounds the peers to whom messages are attempted at the same
	// time. Those of one peer go out in order. 0: 8.
	PeersAtOnce int
	// Transport carries requests to relays in place of connections, for tests
	// without a network: see [relayclient.Config].
	Transport http.RoundTripper
	// Trace is told of each HTTP attempt, from several goroutines at once: see
	// [relayclient.Exchange].
	Trace func(relayclient.Exchange)
	// Heard is told whenever the stream of a Listen brings something, heartbeats
	// included, and after each time that Poll has asked: whoever listens sees by it
	// that listening goes on. It returns at once. nil: nobody.
	Heard func()
	// Policy is what the owner lets the identity send and lets in.
	Policy    policy.Policy
	ReceiveBy string // what the receive lock tells others, such as the command line
	// Capacity bounds the messages not yet marked as handled: with so many, nothing
	// more is consumed from the inbox (06#receive-pipeline step 10). 0: 100,000.
	Capacity int64
	// AuditSeconds and AuditRows bound the audit log. 0: 90 days and 100,000 rows.
	AuditSeconds, AuditRows int64
}

// Endpoint is one identity at work. It is safe for concurrent use.
type Endpoint struct {
	config   Config
	urls     wire.URLPolicy
	profiles *profile.Set
	store    *store.Store
	client   *relayclient.Client
	net      *relayNet
	node     *delivery.Node

	forgotten atomic.Bool // the relay did not know the identity, and Keep is to publish anew
	slow      slowRoutes
}

// Open opens the endpoint's store, making it when there is none. Codes:
// invalid_argument, storage_failed, lock_busy.
func Open(ctx context.Context, c Config) (*Endpoint, error) {
	if c.Clock == nil {
		c.Clock = func() int64 { return time.Now().Unix() }
	}
	if c.PeersAtOnce == 0 {
		c.PeersAtOnce = defaultPeersAtOnce
	}
	if c.Card.Contact == "" {
		c.Card.Contact = descriptor.ContactClosed
	}
	e := &Endpoint{config: c}
	if c.Loopback {
		e.urls = wire.Development
	}
	if c.Relay != "" {
		if err := wire.CheckRelayURL(c.Relay, e.urls); err != nil {
			return nil, fault.Wrap(fault.InvalidArgument, err)
		}
	}
	if err := c.Policy.Check(nil); err != nil {
		return nil, err
	}
	var err error
	if e.profiles, err = install(c.Profiles, c.Rules); err != nil {
		return nil, err
	}
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	if e.store, err = openStore(ctx, c); err != nil {
		return nil, err
	}
	e.store.BoundAudit(store.AuditBounds{Seconds: c.AuditSeconds, Rows: c.AuditRows})
	e.client = relayclient.New(relayclient.Config{
		Identity: c.Identity, URLs: e.urls, Configured: []string{c.Relay}, Transport: c.Transport, Trace: c.Trace, Heard: c.Heard,
	})
	e.net = &relayNet{client: e.client, home: c.Relay}
	e.node, err = delivery.New(ctx, delivery.Config{
		Identity: c.Identity, Store: e.store, Net: e.net, Profiles: e.profiles,
		Accept: c.Accept, Home: c.Relay, URLs: e.urls, Policy: c.Policy, Capacity: c.Capacity,
	}, now)
	if err == nil {
		err = e.foldJournal(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// openStore opens the endpoint's store, one in memory under a key of its own.
func openStore(ctx context.Context, c Config) (*store.Store, error) {
	if c.VaultKey != nil {
		return store.Open(ctx, c.StorePath, c.VaultKey)
	}
	if c.StorePath != "" {
		return nil, fault.New(fault.InvalidArgument, "the store %s needs its vault key", c.StorePath)
	}
	vault := suite.NewSeed()
	defer vault.Destroy()
	return store.Open(ctx, "", vault)
}

// Close closes the store and drops the connections kept to relays.
func (e *Endpoint) Close() error {
	e.client.Close()
	return e.store.Close()
}

// ACEID returns the identity's ACE ID.
func (e *Endpoint) ACEID() string { return e.config.Identity.ACEID() }

// now reads the clock. Code: invalid_argument for a reading that is no wire
// integer (02#wire-integers).
func (e *Endpoint) now() (int64, error) {
	now := e.config.Clock()
	return now, fault.Wrap(fault.InvalidArgument, wire.CheckTime(now))
}

// options are those of verifiers that look at own documents.
func (e *Endpoint) options() descriptor.Options { return descriptor.Options{URLs: e.urls} }
