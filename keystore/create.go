package keystore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// CreateOptions says where a new identity goes and what protects it.
type CreateOptions struct {
	// Dir is the folder of the identity. It must not exist; its parent is
	// made if need be.
	Dir string
	// NextRootPath is the file for the next root, outside Dir. It must not
	// exist; its folder is made if need be.
	NextRootPath string
	// Passphrase seals root.key and agent.key, NextPassphrase the next
	// root. nil leaves the file unsealed.
	Passphrase, NextPassphrase []byte
	// Lifetime is that of the signing key in seconds, at most
	// MAX_SIGNING_KEY_LIFETIME.
	Lifetime int64
	// Files are more files of the folder, by name, that have to appear
	// together with the keys.
	Files map[string][]byte
	// Command is what the lock tells another process.
	Command string
}

// Create makes an identity at now: a root, a next root, a signing key and a
// vault key, and the log icp, dlg. The next root is durable before anything
// else, and the folder appears whole or not at all. Create never replaces
// anything. Codes: invalid_argument, lock_busy, storage_failed,
// identity_unavailable.
func Create(o CreateOptions, now int64) (*Store, error) {
	return o.create(now, func() (*newKeys, error) { return generate(now, o.Lifetime) })
}

// create writes the keys that generate returns.
func (o CreateOptions) create(now int64, generate func() (*newKeys, error)) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	parent := filepath.Dir(o.Dir)
	if err := ownerfile.EnsureDir(parent); err != nil {
		return nil, err
	}
	lock, err := lockNames(parent, o.Command, now)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	if err := checkFree(o.Dir); err != nil {
		return nil, err
	}
	if err := removeUnfinished(parent); err != nil {
		return nil, err
	}
	keys, err := generate()
	if err != nil {
		return nil, err
	}
	defer keys.destroy()
	if err := keys.writeNextRoot(o); err != nil {
		return nil, err
	}
	if err := keys.writeDir(o); err != nil {
		if _, made := os.Lstat(o.Dir); errors.Is(made, fs.ErrNotExist) {
			os.Remove(o.NextRootPath) // it commits to an identity that was not made
		}
		return nil, err
	}
	return Open(o.Dir)
}

// unfinished begins the names of the folders that writeDir fills.
const unfinished = ".new-"

// removeUnfinished removes what a Create left that was killed. The caller holds
// the lock, so no other Create is at work.
func removeUnfinished(parent string) error {
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(parent, e.Name())))
		}
	}
	return fault.Wrap(fault.StorageFailed, err)
}

func (o CreateOptions) check() error {
	if o.Passphrase != nil && len(o.Passphrase) == 0 || o.NextPassphrase != nil && len(o.NextPassphrase) == 0 {
		return fault.New(fault.InvalidArgument, "the passphrase is empty")
	}
	if o.Lifetime < 1 || o.Lifetime > wire.MaxSigningKeyLifetime {
		return fault.New(fault.InvalidArgument, "signing key lifetime of %d s is outside [1, %d]", o.Lifetime, wire.MaxSigningKeyLifetime)
	}
	return checkApart(o.Dir, o.NextRootPath)
}

// checkApart refuses a next root that would lie beside the root.
func checkApart(dir, nextRootPath string) error {
	rel, err := filepath.Rel(dir, nextRootPath)
	if err == nil && filepath.IsLocal(rel) {
		return fault.New(fault.InvalidArgument, "the next root must be kept apart from the root, not inside %s", dir)
	}
	return nil
}

// newKeys are the secrets of an identity being made.
type newKeys struct {
	root, next, signing, vault *suite.Seed
	log                        *kel.State
}

func generate(now, lifetime int64) (*newKeys, error) {
	k := &newKeys{root: suite.NewSeed(), next: suite.NewSeed(), signing: suite.NewSeed(), vault: suite.NewSeed()}
	root := suite.NewSigningKey(k.root)
	defer root.Destroy()
	log, err := kel.Incept(root, commitment(k.next), now)
	if err == nil {
		log, err = log.Delegate(root, publicKey(k.signing), now, now+lifetime)
	}
	if err != nil {
		k.destroy()
		return nil, err
	}
	k.log = log
	return k, nil
}

func publicKey(seed *suite.Seed) []byte {
	key := suite.NewSigningKey(seed)
	defer key.Destroy()
	return key.PublicKey()
}

func commitment(seed *suite.Seed) string {
	return kel.Commitment(wire.SchemeMLDSA65, publicKey(seed))
}

func (k *newKeys) destroy() {
	for _, s := range []*suite.Seed{k.root, k.next, k.signing, k.vault} {
		if s != nil {
			s.Destroy()
		}
	}
}

func (k *newKeys) writeNextRoot(o CreateOptions) error {
	text, err := sealKeyFile(kindNextRoot, k.log.ACEID(), o.NextPassphrase, k.next)
	if err != nil {
		return err
	}
	defer clear(text)
	return createNextRoot(o.NextRootPath, text)
}

func createNextRoot(path string, text []byte) error {
	if err := ownerfile.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	err := ownerfile.Create(path, text)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.InvalidArgument, "%s exists already; a next root is never replaced", path)
	}
	return err
}

// writeDir fills a folder beside the final one and renames it.
func (k *newKeys) writeDir(o CreateOptions) error {
	parent := filepath.Dir(o.Dir)
	temp, err := os.MkdirTemp(parent, unfinished+"*") // mode 0700, whatever the umask
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer os.RemoveAll(temp) // after the rename there is nothing left to remove
	files, err := k.files(o.Passphrase, o.Files)
	if err != nil {
		return err
	}
	defer clearKeys(files)
	for name, text := range files {
		if err := ownerfile.Create(filepath.Join(temp, name), text); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, o.Dir); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return ownerfile.SyncDir(parent)
}
