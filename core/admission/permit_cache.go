package admission

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// PermitCache remembers permits whose signature verified, so that one which
// comes again costs a digest. The permits used longest ago go first.
//
// What it remembers is bound to the log under which it was true: after a new
// event at the issuer nothing finds it any more. Everything that depends on the
// clock or on who asks is checked each time.
//
// Refusals are not remembered. Each bad permit can differ from the one before,
// so that remembering them would save an attacker's verifications only where
// the attacker repeats itself, and would let it push out the good ones. Nor is a
// permit in another form than its canonical one: a single permit would fill any
// number of places. So each place costs a signature of an issuer.
//
// A nil *PermitCache remembers nothing. A PermitCache is safe for concurrent use.
type PermitCache struct {
	bound int // entries

	mu     sync.Mutex // guards the fields below; verification is outside of it
	recent *list.List // of *heldPermit, most recently used first
	byKey  map[permitKey]*list.Element
}

// permitKey names the bytes of a permit and the log that they verified under.
// The hash of the last event stands for the whole log, the name of the issuer
// and its current delegation included.
type permitKey struct {
	permit [sha256.Size]byte
	log    string // kel.State.LastHash
}

// heldPermit is immutable.
type heldPermit struct {
	key   permitKey
	terms terms
}

// NewPermitCache returns a cache for the given number of permits, each of less
// than 1 KiB of memory.
func NewPermitCache(entries int) *PermitCache {
	return &PermitCache{bound: entries, recent: list.New(), byKey: map[permitKey]*list.Element{}}
}

// Verify is [VerifyPermit] of a permit as JSON text, whose size the caller has
// bounded. It does not verify a signature that it remembers again
// (05#delivery-permits, 01#operational-signatures).
//
// Codes: those of VerifyPermit, and invalid_authorization for a text that
// 02#json-values does not accept.
func (c *PermitCache) Verify(raw []byte, state *kel.State, issuer, subject string, now int64) error {
	key := permitKey{permit: sha256.Sum256(raw), log: state.LastHash()}
	if t, ok := c.find(key); ok {
		if err := t.check(state, issuer, subject, now); err != nil {
			return err
		}
		return state.CheckUsable(now)
	}
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return fault.Wrapf(fault.InvalidAuthorization, err, "permit")
	}
	p, err := DecodePermit(v)
	if err != nil {
		return err
	}
	if err := p.terms().check(state, issuer, subject, now); err != nil {
		return err
	}
	if err := p.checkSignature(state); err != nil {
		return err
	}
	if bytes.Equal(raw, p.raw) {
		c.add(key, p.terms(), state)
	}
	return state.CheckUsable(now)
}

func (c *PermitCache) find(key permitKey) (terms, bool) {
	if c == nil {
		return terms{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return terms{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*heldPermit).terms, true
}

// add remembers a permit whose signature verified under state.
func (c *PermitCache) add(key permitKey, t terms, state *kel.State) {
	if c == nil {
		return
	}
	// Memory of its own: the text of the permit, and what it came in, can go.
	t.issuer, t.subject = state.ACEID(), strings.Clone(t.subject)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return // two verified it at a time
	}
	c.byKey[key] = c.recent.PushFront(&heldPermit{key: key, terms: t})
	for c.recent.Len() > c.bound {
		oldest := c.recent.Remove(c.recent.Back()).(*heldPermit)
		delete(c.byKey, oldest.key)
	}
}
