package keystore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// Renewal says how the keys of an identity are replaced.
type Renewal struct {
	// After is the hash of the last event that the caller has seen. A log that
	// ends elsewhere by now is left alone.
	After string
	// Passphrase opens the keys of the folder and seals the new ones, nil for
	// none.
	Passphrase []byte
	// NotAfter ends the new signing key, in Unix seconds.
	NotAfter int64
	// Files returns more files of the folder, by name, that change together with
	// the keys. It is called under the lock, so that it may read what is there. Nil:
	// there are none.
	Files func() (map[string][]byte, error)
	// Command is what the lock tells another process.
	Command string
}

// Rotation is a Renewal that replaces the root as well.
type Rotation struct {
	Renewal
	// NextRoot is the key that the log commits to (see [NextRoot]).
	NextRoot *suite.Seed
	// NextRootPath is the file for the new next root, outside the folder. It
	// must not exist; its own folder is made if need be.
	NextRootPath string
	// NextPassphrase seals the new next root, nil for none.
	NextPassphrase []byte
}

// Delegate replaces the signing key (01#rotation-and-recovery): it appends a
// dlg at max(now, ts of the last event) and returns the log, which is durable
// with its keys and not yet published. Killed at any instant, it leaves the old
// log and keys or the new ones. Codes: invalid_argument (times, no room),
// identity_unavailable, lock_busy ([ErrLogChanged] too), storage_failed.
func (s *Store) Delegate(r Renewal, now int64) (*kel.State, error) {
	if err := s.checkRestored(); err != nil {
		return nil, err
	}
	return s.renew(r, now, func(log *kel.State, keys *newKeys, _ *change) error {
		root, err := s.root(log, r.Passphrase)
		if err != nil {
			return err
		}
		defer root.Destroy()
		keys.log, err = log.Delegate(root, publicKey(keys.signing), max(now, log.LastTS()), r.NotAfter)
		return err
	})
}

// Rotate makes the next root the root, commits to a new one and delegates a new
// signing key: rot, dlg (01#rotation-and-recovery). The new next root is
// durable before the log, and the old root is erased after it. It needs no
// root. Codes as [Store.Delegate].
func (s *Store) Rotate(r Rotation, now int64) (*kel.State, error) {
	if err := s.checkRestored(); err != nil {
		return nil, err
	}
	return s.rotate(r, now, func(log *kel.State, root *suite.SigningKey, next string) (*kel.State, error) {
		return log.Rotate(root, next, max(now, log.LastTS()))
	})
}

// Recover is Rotate at the start of the root epoch of seen, a verified log of
// the identity that may have more or other events of this epoch than the one
// on disk: a thief of the root has appended them. It is refused where the two
// differ before that, with kel_conflict.
//
// It is also how an identity goes on that was restored from a backup and lacks
// events that another installation has signed: see [Store.Restored].
func (s *Store) Recover(r Rotation, seen *kel.State, now int64) (*kel.State, error) {
	log, err := s.rotate(r, now, func(log *kel.State, root *suite.SigningKey, next string) (*kel.State, error) {
		start := log.EpochStart()
		if start > seen.Seq() || log.Events()[start].Hash != seen.Events()[start].Hash {
			return nil, fault.New(fault.KELConflict, "the log in %s is of another root than the log to recover", s.dir)
		}
		return recoverFrom(seen, root, next, now)
	})
	if err != nil {
		return nil, err
	}
	return log, s.ConfirmRestored()
}

func recoverFrom(log *kel.State, root *suite.SigningKey, next string, now int64) (*kel.State, error) {
	return log.Recover(root, next, recoveryTime(log, now))
}

// recoveryTime returns the ts of a recovery: the events that it drops do not
// count.
func recoveryTime(log *kel.State, now int64) int64 {
	return max(now, log.Events()[log.EpochStart()].TS)
}

func (s *Store) rotate(r Rotation, now int64, append func(log *kel.State, root *suite.SigningKey, next string) (*kel.State, error)) (*kel.State, error) {
	if err := r.check(s.dir); err != nil {
		return nil, err
	}
	return s.renew(r.Renewal, now, func(log *kel.State, keys *newKeys, c *change) (err error) {
		keys.root, keys.next = r.NextRoot, suite.NewSeed()
		text, err := sealKeyFile(kindNextRoot, log.ACEID(), r.NextPassphrase, keys.next)
		if err != nil {
			return err
		}
		defer clear(text)
		if err := c.writeNextRoot(r.NextRootPath, text); err != nil {
			return err
		}
		keys.log, err = keys.succeed(func(root *suite.SigningKey, next string) (*kel.State, error) {
			return append(log, root, next)
		}, r.NotAfter)
		return err
	})
}

func (r Rotation) check(dir string) error {
	if r.NextPassphrase != nil && len(r.NextPassphrase) == 0 {
		return fault.New(fault.InvalidArgument, "the passphrase is empty")
	}
	return checkApart(dir, r.NextRootPath)
}

// succeed appends a rot with the given function, and a dlg at its time.
func (k *newKeys) succeed(rotate func(root *suite.SigningKey, next string) (*kel.State, error), notAfter int64) (*kel.State, error) {
	root := suite.NewSigningKey(k.root)
	defer root.Destroy()
	log, err := rotate(root, commitment(k.next))
	if err != nil {
		return nil, err
	}
	return log.Delegate(root, publicKey(k.signing), log.LastTS(), notAfter)
}

// files returns the files of the folder after the renewal.
func (r Renewal) files(keys *newKeys) (map[string][]byte, error) {
	if r.Files == nil {
		return keys.files(r.Passphrase, nil)
	}
	more, err := r.Files()
	if err != nil {
		return nil, err
	}
	return keys.files(r.Passphrase, more)
}

// ErrLogChanged is in the chain of the error, lock_busy, of a change of keys that
// was planned on a log to which another process has appended since.
var ErrLogChanged = errors.New("the log of the identity has changed meanwhile")

// renew replaces the signing key under the lock. Of the keys that sign is given
// it takes the log, and the root where sign sets one; the vault key stays.
func (s *Store) renew(r Renewal, now int64, sign func(*kel.State, *newKeys, *change) error) (*kel.State, error) {
	lock, err := s.Lock(r.Command, now)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	log, err := s.Log(now)
	if err != nil {
		return nil, err
	}
	if log.LastHash() != r.After {
		return nil, fault.Wrap(fault.LockBusy, fmt.Errorf("%w: it ends at seq %d now", ErrLogChanged, log.Seq()))
	}
	old, err := s.seeds(agentFile, kindAgent, log, r.Passphrase, 2)
	if err != nil {
		return nil, err
	}
	old[0].Destroy()
	keys := &newKeys{signing: suite.NewSeed(), vault: old[1]}
	defer keys.destroy()
	c, err := s.beginChange()
	if err != nil {
		return nil, err
	}
	if err := sign(log, keys, c); err != nil {
		return nil, s.abandoned(err)
	}
	failpoint.Here(failpoint.EventsSigned)
	files, err := r.files(keys)
	if err != nil {
		return nil, s.abandoned(err)
	}
	defer clearKeys(files)
	if err := c.commit(files); err != nil {
		return nil, s.abandoned(err)
	}
	return keys.log, nil
}

// abandoned removes what a failed change has written, unless it holds. What
// cannot be removed now is removed by the next holder of the lock.
func (s *Store) abandoned(err error) error {
	_ = s.abandon()
	return err
}

// files returns the texts of the folder's files, with those given. The root is
// among them if there is one.
func (k *newKeys) files(passphrase []byte, more map[string][]byte) (map[string][]byte, error) {
	files := maps.Clone(more)
	if files == nil {
		files = map[string][]byte{}
	}
	agent, err := sealKeyFile(kindAgent, k.log.ACEID(), passphrase, k.signing, k.vault)
	if err != nil {
		return nil, err
	}
	files[logFile], files[agentFile] = append(slices.Clip(k.log.Raw()), '\n'), agent
	if k.root == nil {
		return files, nil
	}
	files[rootFile], err = sealKeyFile(kindRoot, k.log.ACEID(), passphrase, k.root)
	return files, err
}

func clearKeys(files map[string][]byte) {
	clear(files[rootFile])
	clear(files[agentFile])
}

// CreateRecovered makes the folder of an identity of which nothing is left on
// this machine but its next root and a verified log: the log continues at the
// start of its root epoch with rot, dlg (01#rotation-and-recovery). The vault
// key is new. Options and codes are those of [Create].
func CreateRecovered(o CreateOptions, seen *kel.State, nextRoot *suite.Seed, now int64) (*Store, error) {
	notAfter := recoveryTime(seen, now) + o.Lifetime
	return o.create(now, func() (*newKeys, error) {
		k := &newKeys{root: nextRoot, next: suite.NewSeed(), signing: suite.NewSeed(), vault: suite.NewSeed()}
		log, err := k.succeed(func(root *suite.SigningKey, next string) (*kel.State, error) {
			return recoverFrom(seen, root, next, now)
		}, notAfter)
		if err != nil {
			k.destroy()
			return nil, err
		}
		k.log = log
		return k, nil
	})
}
