package keystore

import (
	"errors"
	"os"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// ErrReplaced is in the chain of the error of a signature that an unlocked
// identity refuses because another process has delegated to a new key.
var ErrReplaced = errors.New("another process has replaced the signing key")

// signer is a kel.Signer over a key held in memory. Before each signature it
// looks whether the log on disk is still the one that the key was unlocked
// under (01#operational-signatures: the key is that of the current
// delegation): another process may have delegated to a new key meanwhile.
type signer struct {
	key   *suite.SigningKey
	store *Store
	log   *kel.State

	mu   sync.Mutex
	seen os.FileInfo // the file of the log when it was last read; guarded by mu
}

func (s *signer) PublicKey() []byte { return s.key.PublicKey() }

func (s *signer) Sign(message []byte, context string) ([]byte, error) {
	if err := s.checkCurrent(); err != nil {
		return nil, err
	}
	return s.key.Sign(message, context)
}

// checkCurrent costs a look at the file unless it was replaced, and one at where
// a tombstone would be. Code: identity_unavailable.
func (s *signer) checkCurrent() error {
	if s.store.has(tombstoneFile) {
		return fault.Wrap(fault.IdentityUnavailable, ErrDestroyed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.find(logFile, func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return fault.Wrap(fault.IdentityUnavailable, err)
		}
		if s.seen != nil && os.SameFile(s.seen, info) && info.ModTime().Equal(s.seen.ModTime()) && info.Size() == s.seen.Size() {
			return nil
		}
		text, err := ownerfile.Read(path, wire.MaxPublishedAgentBytes)
		if err != nil {
			return fault.Wrap(fault.IdentityUnavailable, err)
		}
		if end, ok := lastHash(text); !ok || end != s.log.LastHash() {
			return fault.Wrap(fault.IdentityUnavailable, ErrReplaced)
		}
		s.seen = info
		return nil
	})
}

// lastHash returns the hash of the last event of a log that is not verified
// again.
func lastHash(text []byte) (string, bool) {
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil || len(v.Items()) == 0 {
		return "", false
	}
	events := v.Items()
	b, err := kel.EventBytes(events[len(events)-1])
	return suite.Hex256(b), err == nil
}
