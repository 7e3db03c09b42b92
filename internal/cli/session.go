package cli

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

// session is an identity with its keys and its endpoint open.
type session struct {
	*core.Endpoint
	app      *app
	id       *identity
	unlocked *keystore.Unlocked
	relay    string // "" for none yet
	now      func() int64

	policyOrigin string // where the rules of the policy stand, "" without any
}

// open opens the identity to act as, for a command that needs its relay.
func (a *app) open(ctx context.Context) (*session, error) {
	id, err := a.identity()
	if err != nil {
		return nil, err
	}
	return a.openAs(ctx, id)
}

// openAs is open for the given identity.
func (a *app) openAs(ctx context.Context, id *identity) (*session, error) {
	return a.openSettled(ctx, id, true)
}

// openSettled opens an identity that has settled with its relay: see
// settleRestored.
func (a *app) openSettled(ctx context.Context, id *identity, unasked bool) (*session, error) {
	relay, err := a.homeRelay(id)
	if err != nil {
		return nil, err
	}
	if relay == "" {
		return nil, errNoRelay(id)
	}
	s, err := a.unlock(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := a.settleRestored(ctx, s, unasked); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func errNoRelay(id *identity) error {
	return hintf(usagef("the identity %q has no relay", id.name), "set one with ace --as %s publish --relay URL", id.name)
}

// openStore opens the identity to act as, for a command that needs no relay.
func (a *app) openStore(ctx context.Context) (*session, error) {
	id, err := a.identity()
	if err != nil {
		return nil, err
	}
	return a.unlock(ctx, id)
}

// unlock opens an identity, asking for its passphrase if need be.
func (a *app) unlock(ctx context.Context, id *identity) (*session, error) {
	a.io.catchSignals()
	encrypted, err := id.store.Encrypted()
	if err != nil {
		return nil, err
	}
	var pass []byte
	if encrypted {
		if pass, err = a.unlockPassphrase(ctx, id.name); err != nil {
			return nil, err
		}
		defer clear(pass)
	}
	return a.openSession(ctx, id, pass)
}

func (a *app) openSession(ctx context.Context, id *identity, pass []byte) (*session, error) {
	return a.openWith(ctx, id, func() (*keystore.Unlocked, error) {
		unlocked, err := id.store.Unlock(pass, a.io.Now())
		return unlocked, a.wrongPassphrase(id, err, pass)
	})
}

// reopen closes a session and opens it again with the keys that it has, as the
// settings are now.
func (s *session) reopen(ctx context.Context) (*session, error) {
	s.Endpoint.Close()
	id, err := s.app.openIdentity(s.id.name)
	var again *session
	if err == nil {
		again, err = s.app.openWith(ctx, id, func() (*keystore.Unlocked, error) { return s.unlocked, nil })
	}
	if err != nil {
		s.unlocked.Destroy()
	}
	return again, err
}

// settingsChanged reports whether another process has changed the settings. Where
// they cannot be read, those that are known stay.
func (s *session) settingsChanged() bool {
	now, err := readSettings(s.id.store.Dir())
	return err == nil && !reflect.DeepEqual(now, s.id.settings)
}

func (s *session) settingsPath() string { return filepath.Join(s.id.store.Dir(), settingsFile) }

// openWith opens an identity with the keys that unlock gives, which are cleared
// when it fails.
func (a *app) openWith(ctx context.Context, id *identity, unlock func() (*keystore.Unlocked, error)) (*session, error) {
	relay, err := a.homeRelay(id)
	if err != nil {
		return nil, err
	}
	profiles, err := id.settings.enabled()
	if err != nil {
		return nil, err
	}
	ext, err := id.settings.ext()
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	rules, origin, err := a.policyOf(id)
	if err != nil {
		return nil, err
	}
	unlocked, err := unlock()
	if err != nil {
		return nil, err
	}
	if a.flags.allowLoopback && !id.settings.Dev {
		a.warn("--allow-loopback: the identity %s takes relays on this machine, which is for development only", id.name)
	}
	endpoint, err := core.Open(ctx, core.Config{
		Identity:  unlocked.Identity,
		StorePath: id.storePath(),
		VaultKey:  unlocked.Vault,
		Relay:     relay,
		Profiles:  profiles,
		Accept:    a.acceptRules(id),
		Policy:    rules,
		Card:      id.settings.cardRecord(),
		Ext:       ext,
		Loopback:  a.loopback(id),
		Clock:     a.io.Now,
		ReceiveBy: a.command,
		Heard:     a.heard,
		Trace:     a.traceRequests(),

		AuditSeconds: int64(a.conf.Audit.Age.Duration / time.Second),
		AuditRows:    a.conf.Audit.Rows,
	})
	if err != nil {
		unlocked.Destroy()
		return nil, err
	}
	a.traceOpened(id, relay)
	s := &session{Endpoint: endpoint, app: a, id: id, unlocked: unlocked, relay: relay, now: a.io.Now, policyOrigin: origin}
	if err := a.nameEcho(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// storePath is the endpoint's store in the folder of an identity.
func (id *identity) storePath() string { return filepath.Join(id.store.Dir(), storeFile) }

const storeFile = "store.db"

// wrongPassphrase says what helps with keys that do not open under the
// passphrase that was given, which the audit log is told.
func (a *app) wrongPassphrase(id *identity, err error, pass []byte) error {
	if !errors.Is(err, fault.IdentityUnavailable) || pass == nil {
		return err
	}
	a.note(id, core.Note{Event: audit.PassphraseRefused, Code: string(fault.IdentityUnavailable)})
	return withHint(err, "give the passphrase that the keys of %s have now", id.name)
}

// Close closes the endpoint and clears the keys.
func (s *session) Close() {
	s.Endpoint.Close() // everything that matters was committed before
	s.unlocked.Destroy()
}

func (a *app) acceptRules(id *identity) map[string]string {
	rules := map[string]string{}
	for profile, digest := range id.settings.Accept {
		rules[profile] = digest
	}
	for profile, rule := range a.conf.Accept {
		rules[profile] = rule.Digest
	}
	return rules
}

func (a *app) loopback(id *identity) bool { return id.settings.Dev || a.flags.allowLoopback }

// homeRelay returns the URL of an identity's home relay for this call, "" when
// it has none.
func (a *app) homeRelay(id *identity) (string, error) {
	s := id.settings
	given := a.flags.relay
	if given == "" {
		given = a.conf.Identities[id.name].Relay
	}
	if given == "" && s.FollowDev {
		if url, err := a.findDevRelay(); err == nil {
			return url, nil
		}
	}
	if given == "" {
		given = s.Relay
	}
	if given == "" {
		return "", nil
	}
	url, err := a.relayURL(given, a.loopback(id))
	if err == nil && s.Dev && !onLoopback(url) {
		return "", hintf(usagef("the identity %q was made for development and %s is not on this machine", id.name, url),
			"make another identity with ace init --name NAME --relay URL")
	}
	return url, err
}

// relayURL returns the canonical URL of what was given as --relay.
func (a *app) relayURL(given string, loopback bool) (string, error) {
	if given == relayDev {
		return a.awaitDevRelay()
	}
	policy := wire.Production
	if loopback {
		policy = wire.Development
	}
	url, err := wire.NormalizeRelayURL(given)
	if err == nil {
		err = wire.CheckRelayURL(url, policy)
	}
	if err != nil {
		return "", hintf(usagef("relay %q: %v", given, err), "a relay is https://HOST; --allow-loopback takes http://localhost:PORT for development")
	}
	return url, nil
}

func onLoopback(url string) bool { return wire.IsLoopbackName(wire.RelayHost(url)) }

// peer turns what a person typed into an ACE ID. What is no address of anybody
// is wrong usage, and so is the start of an ID that no known peer has: it could
// be anybody's.
func (s *session) peer(ctx context.Context, typed string) (string, error) {
	id, err := s.Resolve(ctx, typed)
	switch {
	case errors.Is(err, fault.InvalidArgument):
		return "", &statusError{exitUsage, "", err}
	case errors.Is(err, fault.UnknownPeer) && isIDPrefix(typed):
		return "", hintf(usagef("%q is not the start of a known peer's ID", typed), "give the whole ACE ID, or @name@host")
	case errors.Is(err, fault.UnknownPeer) && !strings.Contains(typed, "@"):
		return "", hintf(err, "a peer is an ACE ID, @name@host, or a name given with ace contact name")
	}
	return id, err
}

// other is peer for somebody to exchange messages with.
func (s *session) other(ctx context.Context, typed string) (string, error) {
	id, err := s.peer(ctx, typed)
	if err == nil && id == s.ACEID() {
		return "", usagef("%q is the identity %s itself: a message needs somebody else", typed, s.id.name)
	}
	return id, err
}

// withPeer runs f with the endpoint that open opens and the peer that find makes
// of what was typed, within the time of --timeout.
func (a *app) withPeer(ctx context.Context, open func(context.Context) (*session, error),
	find func(*session, context.Context, string) (string, error), typed string,
	f func(ctx context.Context, s *session, peer string) error) error {
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	peer, err := find(s, ctx, typed)
	if err != nil {
		return err
	}
	return f(ctx, s, peer)
}
