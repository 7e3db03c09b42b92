package keystore

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
)

// ChangePassphrase seals root.key and agent.key under another passphrase, nil
// for none on either side. A crash at any instant leaves both files under the
// one or both under the other. What is written is opened once before it holds. A
// next root keeps its own passphrase, see [ChangeNextRootPassphrase]. Codes:
// invalid_argument, lock_busy, identity_unavailable, storage_failed.
func (s *Store) ChangePassphrase(old, fresh []byte, command string, now int64) error {
	if fresh != nil && len(fresh) == 0 {
		return fault.New(fault.InvalidArgument, "the passphrase is empty")
	}
	lock, err := s.Lock(command, now)
	if err != nil {
		return err
	}
	defer lock.Release()
	log, err := s.Log(now)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	defer clearKeys(files)
	for _, f := range keyFiles {
		seeds, err := s.seeds(f.name, f.kind, log, old, f.count)
		if err != nil {
			return err
		}
		files[f.name], err = reseal(f.name, f.kind, log.ACEID(), fresh, seeds)
		destroyAll(seeds)
		if err != nil {
			return err
		}
	}
	c, err := s.beginChange()
	if err != nil {
		return err
	}
	if err := c.commit(files); err != nil {
		return s.abandoned(err)
	}
	return nil
}

// reseal returns the text of a key file, which it opens to see that it holds the
// seeds.
func reseal(name, kind, aceID string, passphrase []byte, seeds []*suite.Seed) ([]byte, error) {
	text, err := sealKeyFile(kind, aceID, passphrase, seeds...)
	if err != nil {
		return nil, err
	}
	k, err := decodeKeyFile(text, name, kind)
	if err != nil {
		return nil, err
	}
	again, err := k.open(passphrase, len(seeds))
	if err != nil {
		return nil, err
	}
	defer destroyAll(again)
	for i, seed := range seeds {
		if !seed.Equal(again[i]) {
			return nil, fault.New(fault.StorageFailed, "%s would not hold what it holds now", name)
		}
	}
	return text, nil
}

// ChangeNextRootPassphrase seals a next root under another passphrase, nil for
// none on either side, after checking that the log commits to it. The file is
// replaced atomically. Codes: invalid_argument, identity_unavailable,
// storage_failed.
func ChangeNextRootPassphrase(path string, log *kel.State, old, fresh []byte) error {
	if fresh != nil && len(fresh) == 0 {
		return fault.New(fault.InvalidArgument, "the passphrase is empty")
	}
	seed, err := NextRoot(path, log, old)
	if err != nil {
		return err
	}
	defer seed.Destroy()
	text, err := reseal(path, kindNextRoot, log.ACEID(), fresh, []*suite.Seed{seed})
	if err != nil {
		return err
	}
	defer clear(text)
	return ownerfile.Write(path, text)
}

func destroyAll(seeds []*suite.Seed) {
	for _, s := range seeds {
		s.Destroy()
	}
}
