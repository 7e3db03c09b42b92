package sim

import (
	"bytes"
	"errors"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// become gives the host a log and the key that it delegates to.
func (h *host) become(state *kel.State, key *suite.SigningKey) {
	if h.id != nil {
		h.was, h.wasIn = h.id.State(), h.w.step
	}
	h.logs[state.LastHash()] = true
	h.id = kel.NewIdentity(state, signer{h, key})
}

// signer signs while no process of the host has delegated to another key, as a
// key of the keystore does.
type signer struct {
	h   *host
	key *suite.SigningKey
}

func (s signer) PublicKey() []byte { return s.key.PublicKey() }

func (s signer) Sign(message []byte, context string) ([]byte, error) {
	if d := s.h.id.State().Delegated(); d == nil || !bytes.Equal(d.Key, s.key.PublicKey()) {
		return nil, errors.New("another process has delegated to a new key")
	}
	return s.key.Sign(message, context)
}

// delegate makes a new signing key the host's, under the log that change makes
// of its own. No process of it knows of that yet.
func (h *host) delegate(change func(*kel.State, int64) (*kel.State, error)) error {
	key := newKey()
	at := max(h.clock(), h.id.State().LastTS())
	state, err := change(h.id.State(), at)
	if err == nil {
		state, err = state.Delegate(h.root, key.PublicKey(), at, at+wire.MaxSigningKeyLifetime)
	}
	if err != nil {
		return err
	}
	h.rotated = true
	h.become(state, key)
	return nil
}

// newSigningKey is a dlg.
func (h *host) newSigningKey() error {
	return h.delegate(func(s *kel.State, _ int64) (*kel.State, error) { return s, nil })
}

// newRoot is a rot to the committed next root, and a dlg: behind the log, or in
// the place of the current epoch, as after the theft of the root
// (01#rotation-and-recovery).
func (h *host) newRoot(recover bool) error {
	next := newKey()
	commitment := kel.Commitment(wire.SchemeMLDSA65, next.PublicKey())
	root := h.root
	err := h.delegate(func(s *kel.State, at int64) (*kel.State, error) {
		rotate := s.Rotate
		if recover {
			rotate = s.Recover
		}
		state, err := rotate(h.next, commitment, at)
		h.root = h.next
		return state, err
	})
	if err != nil {
		h.root = root
		return err
	}
	h.next = next
	h.recovered = h.recovered || recover
	return nil
}

// takeUp starts the process again where it has not seen the newest log.
func (h *host) takeUp() { h.restart(func() {}) }

// bound returns whether a pinned log is the newest of its identity.
func (h *host) knows(peer *host) bool {
	pin := h.view.pins[peer.id.ACEID()]
	return pin != nil && pin.LastHash() == peer.id.State().LastHash()
}
