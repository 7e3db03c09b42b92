package core

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	// descriptorLifetime is as long as 04#fields allows: an agent that runs now
	// and then stays reachable between.
	descriptorLifetime = wire.MaxDescriptorLifetime
	// prekeyLife is how long a published prekey is the current one. With
	// MAX_RETAINED_PREKEYS superseded ones it is well within 04#prekey.
	prekeyLife = 86400
)

// PublishOptions say how to publish.
type PublishOptions struct {
	Force  bool // publish anew although nothing asks for it
	Prekey bool // with a new prekey: others may have the seed of the last one
	// After is the issuedAt, in Unix seconds, of a document that this store has
	// not signed and that peers may have seen, 0 for none: what is published is
	// issued later.
	After int64
	// Unasked says that the owner has not asked for it: then an identity that was
	// unregistered stays so.
	Unasked bool
}

// Published is what a Publish did, and what stands afterwards.
type Published struct {
	Relay             string
	Registered        string // registered, idempotent, refreshed or rotated; "" when no registration was needed
	Descriptor        bool   // a new descriptor was published
	Card              bool   // a new card record was published
	DescriptorExpires int64
	Handle            string // "@name@host" or ""
}

// Publish registers the identity at its home relay on demand and publishes its
// descriptor and card record where they are missing there or changed, and a
// descriptor with less than half of its life left. It ends what
// [Endpoint.Unregister] began, unless it is Unasked: then the error is
// [ErrWithdrawn]. Codes: identity_unavailable, invalid_argument (fields that no
// verifier accepts), storage_failed, and those of 07#client-rules.
func (e *Endpoint) Publish(ctx context.Context, o PublishOptions) (Published, error) {
	now, err := e.now()
	if err != nil {
		return Published{}, err
	}
	if err := e.mayPublish(ctx, o); err != nil {
		return Published{}, err
	}
	p := &publication{Endpoint: e, now: now, force: o.Force, newPrekey: o.Prekey, after: o.After, done: Published{Relay: e.config.Relay, Handle: e.handle()}}
	if err := p.registerOnDemand(ctx); err != nil {
		return p.done, err
	}
	if err := p.publishDescriptor(ctx); err != nil {
		return p.done, err
	}
	if err := p.publishCard(ctx); err != nil {
		return p.done, err
	}
	return p.done, e.store.Scrub(ctx)
}

// mayPublish looks whether the owner has unregistered the identity, and takes a
// publication that is asked for as the end of that.
func (e *Endpoint) mayPublish(ctx context.Context, o PublishOptions) error {
	if !o.Unasked {
		_, err := e.withdraw(ctx, false)
		return err
	}
	withdrawn, err := e.Withdrawn(ctx)
	if err == nil && withdrawn {
		err = errWithdrawn()
	}
	return err
}

// handle returns the own handle address, "" without one.
func (e *Endpoint) handle() string {
	if e.config.Card.Handle == "" {
		return ""
	}
	_, host, _ := strings.Cut(e.config.Relay, "://")
	return descriptor.HandleAddress{Name: e.config.Card.Handle, Host: host}.String()
}

// publication is one Publish.
type publication struct {
	*Endpoint
	now       int64
	force     bool
	newPrekey bool
	after     int64 // of PublishOptions
	done      Published
}

// registerOnDemand registers when this relay has not seen the current log from
// this store yet. What the relay has forgotten shows later, as not_registered.
func (p *publication) registerOnDemand(ctx context.Context) error {
	shown, err := p.hasShownLog(ctx)
	if err != nil || shown {
		return err
	}
	return p.register(ctx)
}

// hasShownLog reports whether the relay has, as far as this store knows, taken
// the current log in.
func (e *Endpoint) hasShownLog(ctx context.Context) (bool, error) {
	var known store.Registration
	err := e.store.View(ctx, func(tx *store.Tx) (err error) {
		known, _, err = tx.Registration(e.config.Relay)
		return err
	})
	return known.KELEnd == e.config.Identity.State().LastHash(), err
}

func (p *publication) register(ctx context.Context) error {
	status, err := p.Endpoint.register(ctx, p.now)
	p.done.Registered = string(status)
	return err
}

// registered runs f, and once more after a registration when the relay answers
// that it needs one.
func (p *publication) registered(ctx context.Context, f func() error) error {
	err := f()
	if !p.needsRegistration(ctx, err) {
		return err
	}
	if err := p.register(ctx); err != nil {
		return err
	}
	return f()
}

// conflictSteps are the seconds by which a registration is dated ahead when the
// relay holds a newer one that the store knows nothing of, as after its loss.
// All are within TIMESTAMP_WINDOW_SECONDS.
var conflictSteps = []int64{0, 2, 20, 120, 280}

// needsRegistration reports whether err says that the relay does not know the
// identity, or another log than the current one, as when the registration that
// follows a new key did not come through. Requests have a future_seq then, and
// documents a kel_conflict; after a recovery, which takes the place of events,
// requests may have a stale_seq, or an invalid_signature where another key was
// delegated to at the same seq (07#errors).
func (e *Endpoint) needsRegistration(ctx context.Context, err error) bool {
	if errors.Is(err, fault.NotRegistered) {
		return true
	}
	switch remoteError(err) {
	case string(relayapi.FutureSeq), string(fault.KELConflict):
		return true
	case string(relayapi.StaleSeq), string(fault.InvalidSignature):
		shown, err := e.hasShownLog(ctx)
		return err == nil && !shown
	}
	return false
}

// onceRegistered runs f, and once more after a registration when the relay
// answers that it needs one.
func (e *Endpoint) onceRegistered(ctx context.Context, now int64, f func() error) error {
	err := f()
	if !e.needsRegistration(ctx, err) {
		return err
	}
	if _, err := e.register(ctx, now); err != nil {
		return err
	}
	return f()
}

// register registers the identity at its home relay. Registrations have strictly
// increasing timestamps, across processes (07#registration step 6). Code:
// not_registered for an identity that its owner has taken from the relay.
func (e *Endpoint) register(ctx context.Context, now int64) (relayapi.Status, error) {
	return e.registerWith(ctx, now, false)
}

// registerWith is register, toEnd for a registration that is to end at once.
func (e *Endpoint) registerWith(ctx context.Context, now int64, toEnd bool) (status relayapi.Status, err error) {
	for _, ahead := range conflictSteps {
		at, err := e.reserveTimestamp(ctx, now+ahead, toEnd)
		if err != nil {
			return "", err
		}
		status, err = e.client.Register(ctx, e.config.Relay, at)
		if err == nil {
			return status, e.recordRegistration(ctx, status, at, now)
		}
		if remoteError(err) != string(relayapi.IdentityConflict) {
			return "", err
		}
	}
	return "", err
}

// reserveTimestamp reserves a timestamp for a registration or its end.
func (e *Endpoint) reserveTimestamp(ctx context.Context, now int64, toEnd bool) (at int64, err error) {
	err = e.store.Update(ctx, func(tx *store.Tx) error {
		withdrawn, err := tx.Withdrawn()
		if err == nil && withdrawn && !toEnd {
			err = errWithdrawn()
		}
		if err != nil {
			return err
		}
		last, ok, err := tx.Registration(e.config.Relay)
		if err != nil {
			return err
		}
		at = now
		if ok && !tooEarly(last.Timestamp, now) {
			at = max(now, last.Timestamp+1)
		}
		return tx.SetRegistration(e.config.Relay, store.Registration{Timestamp: at, KELEnd: last.KELEnd})
	})
	return at, err
}

// recordRegistration records that the relay has taken a registration, dated at,
// with the current log.
func (e *Endpoint) recordRegistration(ctx context.Context, status relayapi.Status, at, now int64) error {
	log := e.config.Identity.State()
	err := e.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.AddAudit(store.Audit{At: now, Event: audit.RelayRegistered, Relay: e.config.Relay, KELSeq: log.Seq()}); err != nil {
			return err
		}
		if status == relayapi.Registered {
			if err := e.forgetStanding(tx); err != nil {
				return err
			}
		}
		last, _, err := tx.Registration(e.config.Relay)
		if err != nil {
			return err
		}
		return tx.SetRegistration(e.config.Relay, store.Registration{Timestamp: max(at, last.Timestamp), KELEnd: log.LastHash()})
	})
	if err == nil && status == relayapi.Registered {
		e.forgotten.Store(true)
	}
	return err
}

// forgetStanding takes note that the relay did not know the identity: no block of
// ours is held there and no descriptor stands. The card record is still noted as there, because its handle is set for as long as the
// home is the same (04#card-record).
func (e *Endpoint) forgetStanding(tx *store.Tx) error {
	if err := tx.ForgetSettledBlocks(e.config.Relay); err != nil {
		return err
	}
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil || !ok || own.Relay != e.config.Relay {
		return err
	}
	own.Relay = ""
	return tx.SetOwn(store.OwnDescriptor, own)
}

func (p *publication) publishDescriptor(ctx context.Context) error {
	served, err := p.served(ctx, p.client.Descriptor)
	if err != nil {
		return err
	}
	var agent *descriptor.PublishedAgent
	var fresh bool
	err = p.store.Update(ctx, func(tx *store.Tx) (err error) {
		agent, fresh, err = p.prepareDescriptor(tx, p.issuedAt(served, "descriptor"))
		return err
	})
	if err != nil {
		return err
	}
	p.done.DescriptorExpires = agent.ExpiresAt
	if !fresh && served.Equal(agent.Value()) {
		return p.confirm(ctx, store.OwnDescriptor, agent.IssuedAt)
	}
	err = p.registered(ctx, func() error { return p.client.PutDescriptor(ctx, p.config.Relay, agent.Raw()) })
	if err != nil {
		return err
	}
	p.done.Descriptor = true
	return p.confirm(ctx, store.OwnDescriptor, agent.IssuedAt)
}

// prepareDescriptor returns the descriptor to stand at the relay: the last one,
// or a new one that is stored before anybody sees it, as is its prekey.
func (p *publication) prepareDescriptor(tx *store.Tx, served int64) (agent *descriptor.PublishedAgent, fresh bool, err error) {
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil {
		return nil, false, err
	}
	if ok {
		if agent, err = descriptor.DecodeStored(own.Raw); err != nil {
			return nil, false, err
		}
	}
	key, rotated, err := p.prekey(tx)
	if err != nil {
		return nil, false, err
	}
	if agent != nil && !p.force && !rotated && agent.IssuedAt >= served && p.stands(agent) {
		return agent, false, nil
	}
	previous := p.previous(own, served)
	agent, err = descriptor.Build(p.config.Identity, descriptor.Fields{
		ExpiresAt: p.expiry(previous), Relays: []string{p.config.Relay}, Prekey: key, Profiles: p.listed(), Ext: p.ext(p.now),
	}, p.now, previous, p.options())
	if err != nil {
		return nil, false, err
	}
	return agent, true, tx.SetOwn(store.OwnDescriptor, store.Document{IssuedAt: agent.IssuedAt, Raw: agent.Raw()})
}

// expiry counts the lifetime from the time of issue that descriptor.Build will
// choose (04#verification).
func (p *publication) expiry(previous int64) int64 {
	return max(p.config.Identity.SigningTime(p.now), previous+1) + descriptorLifetime
}

// stands reports whether a descriptor still says what the endpoint would say.
func (p *publication) stands(a *descriptor.PublishedAgent) bool {
	return a.Usable(p.now, p.config.Identity.State()) && !tooEarly(a.IssuedAt, p.now) &&
		2*(a.ExpiresAt-p.now) >= a.ExpiresAt-a.IssuedAt &&
		slices.Equal(a.Relays, []string{p.config.Relay}) && slices.Equal(a.Profiles, p.listed()) && a.Ext.Equal(p.ext(p.now))
}

// prekey returns the public key of the current prekey, a new one when it has
// been current for long enough.
func (p *publication) prekey(tx *store.Tx) (publicKey []byte, rotated bool, err error) {
	kept, err := tx.Prekeys("")
	if err != nil {
		return nil, false, err
	}
	for _, k := range kept {
		k.Seed.Destroy()
		if k.Slot == store.SlotCurrent && !p.newPrekey && p.now-k.At < prekeyLife && !tooEarly(k.At, p.now) {
			return k.PublicKey, false, nil
		}
	}
	publicKey, err = delivery.RotatePublished(tx, p.now)
	return publicKey, true, err
}

// listed returns the enabled profiles as a descriptor lists them: never core.
func (e *Endpoint) listed() []descriptor.Profile {
	var list []descriptor.Profile
	for _, m := range e.profiles.Manifests() {
		if m.ID != profile.CoreID {
			list = append(list, descriptor.Profile{ID: m.ID, Digest: m.Digest})
		}
	}
	return list
}

func (p *publication) publishCard(ctx context.Context) error {
	served, err := p.served(ctx, p.client.Card)
	if err != nil {
		return err
	}
	var card *descriptor.CardBundle
	var fresh bool
	err = p.store.Update(ctx, func(tx *store.Tx) (err error) {
		card, fresh, err = p.prepareCard(tx, p.issuedAt(served, "card"))
		return err
	})
	if err != nil {
		return err
	}
	if !fresh && served.Equal(card.Value()) {
		return p.confirm(ctx, store.OwnCard, card.IssuedAt)
	}
	err = p.registered(ctx, func() error { return p.client.PutCard(ctx, p.config.Relay, card.Raw()) })
	if err != nil {
		return err
	}
	p.done.Card = true
	return p.confirm(ctx, store.OwnCard, card.IssuedAt)
}

// prepareCard returns the card record to stand at the relay. An agent re-signs
// its record after every dlg (04#card-record). Codes: invalid_argument for a
// handle other than the one claimed at that relay, those of
// [descriptor.BuildCard].
func (p *publication) prepareCard(tx *store.Tx, served int64) (card *descriptor.CardBundle, fresh bool, err error) {
	own, ok, err := tx.Own(store.OwnCard)
	if err != nil {
		return nil, false, err
	}
	if ok {
		if card, err = descriptor.DecodeStoredCard(own.Raw); err != nil {
			return nil, false, err
		}
	}
	record := p.config.Card
	record.Home = p.config.Relay
	if own.Relay == record.Home && card.Handle != "" && card.Handle != record.Handle {
		// 04#card-record: a handle is set once, for as long as home is the same.
		return nil, false, fault.New(fault.InvalidArgument, "the handle is %q for good: no card record can have %q", card.Handle, record.Handle)
	}
	if card != nil && !p.force && card.IssuedAt >= served && sameCard(card.CardRecord, record) &&
		card.KELEnd() == p.config.Identity.State().LastHash() && !tooEarly(card.IssuedAt, p.now) {
		return card, false, nil
	}
	if card, err = descriptor.BuildCard(p.config.Identity, record, p.now, p.previous(own, served), p.options()); err != nil {
		return nil, false, err
	}
	return card, true, tx.SetOwn(store.OwnCard, store.Document{IssuedAt: card.IssuedAt, Raw: card.Raw()})
}

// sameCard reports whether two records say the same, whoever issued them when.
func sameCard(a, b descriptor.CardRecord) bool {
	return a.Home == b.Home && a.Handle == b.Handle && a.Contact == b.Contact && a.Listed == b.Listed &&
		a.Card.Description == b.Card.Description && a.Card.Image == b.Card.Image &&
		slices.Equal(a.Card.Tags, b.Card.Tags) && slices.Equal(a.Pay, b.Pay) && slices.Equal(a.ERC8004, b.ERC8004)
}

// served returns what the home relay serves for this identity, null for nothing.
func (p *publication) served(ctx context.Context, lookup func(ctx context.Context, relay, aceID string) (wire.Value, error)) (wire.Value, error) {
	v, err := lookup(ctx, p.config.Relay, p.ACEID())
	if errors.Is(err, fault.UnknownPeer) {
		return wire.Value{}, nil
	}
	return v, err
}

// tooEarly reports whether no verifier accepts a time at now. Such a time comes
// from a clock that ran ahead or from a relay that lies, and what followed it
// would be refused everywhere.
func tooEarly(at, now int64) bool { return at > now+wire.TimestampWindowSeconds }

// previous returns the issuedAt that the next own document has to exceed: that of
// the last one signed here, of the one served or of one that is known otherwise,
// -1 without any.
func (p *publication) previous(own store.Document, served int64) int64 {
	if p.after > 0 && !tooEarly(p.after, p.now) {
		served = max(served, p.after)
	}
	if own.Raw == nil || tooEarly(own.IssuedAt, p.now) {
		return served
	}
	return max(served, own.IssuedAt)
}

// issuedAt returns the issuedAt of a served own document, -1 without one. A
// store that was lost knows less than its relay, which refuses what is not
// newer.
func (p *publication) issuedAt(served wire.Value, member string) int64 {
	document, _ := served.Get(member)
	at, _ := document.Get("issuedAt")
	if n, ok := at.AsInt(); ok && !tooEarly(n, p.now) {
		return n
	}
	return -1
}

// publications are the events of documents that a relay has taken.
var publications = map[store.DocumentKind]audit.Event{
	store.OwnDescriptor: audit.DescriptorPublished,
	store.OwnCard:       audit.CardPublished,
}

// confirm records that an own document stands at the relay: it took it, now or
// with an answer that was lost.
func (p *publication) confirm(ctx context.Context, kind store.DocumentKind, issuedAt int64) error {
	return p.store.Update(ctx, func(tx *store.Tx) error {
		own, _, err := tx.Own(kind)
		if err != nil || own.IssuedAt != issuedAt || own.Relay == p.config.Relay {
			return err
		}
		if err := tx.AddAudit(store.Audit{At: p.now, Event: publications[kind], Relay: p.config.Relay}); err != nil {
			return err
		}
		own.Relay = p.config.Relay
		return tx.SetOwn(kind, own)
	})
}

// ensurePublished publishes when no unexpired own descriptor stands at the
// relay: contact packets carry it.
func (e *Endpoint) ensurePublished(ctx context.Context, now int64) error {
	var stands bool
	err := e.store.View(ctx, func(tx *store.Tx) error {
		own, ok, err := tx.Own(store.OwnDescriptor)
		if err != nil || !ok || own.Relay != e.config.Relay {
			return err
		}
		agent, err := descriptor.DecodeStored(own.Raw)
		stands = err == nil && agent.Usable(now, e.config.Identity.State())
		return err
	})
	if err != nil || stands {
		return err
	}
	_, err = e.Publish(ctx, PublishOptions{Unasked: true})
	return err
}

func remoteError(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Remote
	}
	return ""
}
