package keystore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// The files of an identity's folder.
const (
	logFile   = "kel.json"
	rootFile  = "root.key"
	agentFile = "agent.key"
	lockFile  = "identity.lock"
)

// Store is the folder of one identity.
type Store struct {
	dir string
}

// List returns the names of the identities below a folder of identities, in
// order, and none when the folder does not exist. Destroyed ones are left out.
func List(parent string) ([]string, error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	var names []string
	for _, e := range entries {
		_, alive := os.Lstat(filepath.Join(parent, e.Name(), tombstoneFile))
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && alive != nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Open finds the identity of a folder. It opens no key. Codes:
// identity_unavailable when there is none or it was destroyed ([ErrDestroyed]),
// storage_failed when the folder or a file of the identity is open to others.
func Open(dir string) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, logFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.IdentityUnavailable, "there is no identity in %s", dir)
	}
	if err := ownerfile.CheckDir(dir); err != nil {
		return nil, err
	}
	if err := refuseDestroyed(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{logFile, rootFile, agentFile} {
		if err := ownerfile.CheckFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return &Store{dir: dir}, nil
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// Log reads the identity's key event log and verifies it at
// t = max(now, ts of its last event), as 01#operational-signatures has a signer
// do: a clock that is behind takes no identity away. Codes: storage_failed, and
// identity_unavailable for a log that does not verify.
func (s *Store) Log(now int64) (*kel.State, error) {
	var text []byte
	err := s.find(logFile, func(path string) (err error) {
		text, err = ownerfile.Read(path, wire.MaxPublishedAgentBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeLog(text, now)
}

// decodeLog is [Store.Log] for the text of a log.
func decodeLog(text []byte, now int64) (*kel.State, error) {
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "%s", logFile)
	}
	log, err := kel.Verify(v, max(now, lastTime(v)))
	return log, fault.Wrapf(fault.IdentityUnavailable, err, "%s", logFile)
}

// lastTime returns the ts that the last event of a log states, 0 for what is no
// log.
func lastTime(log wire.Value) int64 {
	events := log.Items()
	if len(events) == 0 {
		return 0
	}
	ts, _ := events[len(events)-1].Get("ts")
	t, _ := ts.AsInt()
	return t
}

// Encrypted reports whether the keys are sealed under a passphrase.
func (s *Store) Encrypted() (bool, error) {
	k, err := s.keyFile(agentFile, kindAgent)
	if err != nil {
		return false, err
	}
	defer clear(k.plain)
	return k.encrypted(), nil
}

// Unlocked is what a running endpoint needs of an identity. The root is not
// part of it.
type Unlocked struct {
	Identity *kel.Identity
	// Vault seals the prekey seeds in the endpoint's store.
	Vault  *suite.Seed
	signer *signer
}

// CheckCurrent fails when the keys are not those of the log on disk any more, with
// [ErrReplaced] when another process has delegated to a new key. A signature does
// that by itself, but for one behind the end of the delegation, which comes to no
// key. Code: identity_unavailable.
func (u *Unlocked) CheckCurrent() error { return u.signer.checkCurrent() }

// Destroy clears the keys.
func (u *Unlocked) Destroy() {
	u.signer.key.Destroy()
	u.Vault.Destroy()
}

// Unlock opens agent.key with the passphrase, nil for none, and checks that
// its signing key is the one the log delegates. The key signs for as long as
// the log on disk stays as it is. Codes: identity_unavailable, storage_failed,
// and those of [Store.Log].
func (s *Store) Unlock(passphrase []byte, now int64) (*Unlocked, error) {
	log, err := s.Log(now)
	if err != nil {
		return nil, err
	}
	u, err := s.unlock(log, passphrase)
	if err == nil {
		return u, nil
	}
	// Another process may have replaced both files after the first was read.
	if again, logErr := s.Log(now); logErr == nil && again.LastHash() != log.LastHash() {
		return s.unlock(again, passphrase)
	}
	return nil, err
}

func (s *Store) unlock(log *kel.State, passphrase []byte) (*Unlocked, error) {
	seeds, err := s.seeds(agentFile, kindAgent, log, passphrase, 2)
	if err != nil {
		return nil, err
	}
	defer seeds[0].Destroy()
	u := &Unlocked{Vault: seeds[1], signer: &signer{key: suite.NewSigningKey(seeds[0]), store: s, log: log}}
	d := log.Delegated()
	if d == nil || !slices.Equal(d.Key, u.signer.PublicKey()) {
		u.Destroy()
		return nil, fault.New(fault.IdentityUnavailable, "agent.key does not hold the signing key that the log delegates")
	}
	u.Identity = kel.NewIdentity(log, u.signer)
	return u, nil
}

// Root opens root.key for the verbs that append to the log, and checks that it
// is the log's current root. It refuses a restored identity that was not
// compared with its relay yet ([Store.Restored]). The caller destroys the key.
// Codes as Unlock.
func (s *Store) Root(passphrase []byte, now int64) (*suite.SigningKey, error) {
	if err := s.checkRestored(); err != nil {
		return nil, err
	}
	log, err := s.Log(now)
	if err != nil {
		return nil, err
	}
	return s.root(log, passphrase)
}

func (s *Store) root(log *kel.State, passphrase []byte) (*suite.SigningKey, error) {
	seeds, err := s.seeds(rootFile, kindRoot, log, passphrase, 1)
	if err != nil {
		return nil, err
	}
	defer seeds[0].Destroy()
	key := suite.NewSigningKey(seeds[0])
	if !slices.Equal(key.PublicKey(), log.Root()) {
		key.Destroy()
		return nil, fault.New(fault.IdentityUnavailable, "root.key does not hold the current root of the log")
	}
	return key, nil
}

func (s *Store) keyFile(name, kind string) (k *keyFile, err error) {
	err = s.find(name, func(path string) (err error) {
		k, err = readKeyFile(path, kind)
		return err
	})
	return k, err
}

func (s *Store) seeds(name, kind string, log *kel.State, passphrase []byte, count int) ([]*suite.Seed, error) {
	k, err := s.keyFile(name, kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	if err != nil {
		return nil, err
	}
	if k.aceID != log.ACEID() {
		return nil, fault.New(fault.IdentityUnavailable, "%s belongs to another identity", name)
	}
	return k.open(passphrase, count)
}

// Lock takes the lock of the identity for a verb that changes it, and brings a
// change to its end that a dead process has left. Codes: lock_busy, naming the
// holder, and storage_failed.
func (s *Store) Lock(command string, now int64) (*ownerfile.Lock, error) {
	lock, err := ownerfile.Acquire(filepath.Join(s.dir, lockFile), command, now)
	if err != nil {
		return nil, err
	}
	if err := s.settle(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lock, nil
}
