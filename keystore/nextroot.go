package keystore

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
)

// NextRootInfo tells what can be told of a next-root file without opening it:
// whose it is, and whether a passphrase seals it. Codes: identity_unavailable
// when there is none, storage_failed.
func NextRootInfo(path string) (aceID string, encrypted bool, err error) {
	k, err := readNextRoot(path)
	if err != nil {
		return "", false, err
	}
	clear(k.plain)
	return k.aceID, k.encrypted(), nil
}

// NextRoot opens a next-root file and checks that the log commits to it. The
// caller destroys the seed. Codes: identity_unavailable, storage_failed.
func NextRoot(path string, log *kel.State, passphrase []byte) (*suite.Seed, error) {
	k, err := readNextRoot(path)
	if err != nil {
		return nil, err
	}
	if k.aceID != log.ACEID() {
		clear(k.plain)
		return nil, fault.New(fault.IdentityUnavailable, "%s is the next root of another identity, %s", path, k.aceID)
	}
	seeds, err := k.open(passphrase, 1)
	if err != nil {
		return nil, err
	}
	if err := checkNextRoot(path, log, seeds[0]); err != nil {
		seeds[0].Destroy()
		return nil, err
	}
	return seeds[0], nil
}

func readNextRoot(path string) (*keyFile, error) {
	k, err := readKeyFile(path, kindNextRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	return k, err
}

// checkNextRoot tells a next root that was used from one that never was the
// log's.
func checkNextRoot(path string, log *kel.State, seed *suite.Seed) error {
	if commitment(seed) == log.Next() {
		return nil
	}
	key := publicKey(seed)
	for _, e := range log.Events() {
		if e.Type != kel.Delegation && bytes.Equal(e.Key, key) {
			return fault.New(fault.IdentityUnavailable, "%s was used: it became the root at seq %d, and the log commits to a newer next root", path, e.Seq)
		}
	}
	return fault.New(fault.IdentityUnavailable, "%s is not the next root that the log commits to", path)
}
