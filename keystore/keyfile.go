package keystore

import (
	"errors"

	"golang.org/x/crypto/scrypt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// keyFileLimit bounds a key file in bytes; a real one has a few hundred.
const keyFileLimit = 16384

// The kinds of key file, by what they hold.
const (
	kindRoot     = "root"      // the root seed
	kindNextRoot = "next-root" // the next root's seed
	kindAgent    = "agent"     // the signing seed, then the vault key
)

// The cost of new key files is about a third of a second and 128 MiB. The floor
// and the ceiling bound what a file may ask for.
const (
	scryptN    = 1 << 17
	scryptR    = 8
	scryptP    = 1
	minScryptN = 1 << 14
	maxScryptN = 1 << 20
	maxScryptR = 16
	maxScryptP = 4
	saltBytes  = 16
)

type cost struct{ n, r, p int }

// derive turns a passphrase into the 32-byte key of a file.
func (c cost) derive(passphrase, salt []byte) ([]byte, error) {
	return scrypt.Key(passphrase, salt, c.n, c.r, c.p, 32)
}

func (c cost) object(salt []byte) wire.Value {
	return wire.NewObject(
		wire.M("name", wire.NewString("scrypt")),
		wire.M("n", wire.NewInt(int64(c.n))),
		wire.M("r", wire.NewInt(int64(c.r))),
		wire.M("p", wire.NewInt(int64(c.p))),
		wire.M("salt", wire.NewString(wire.EncodeBase64(salt))),
	)
}

func readCost(r *wire.Reader) (c cost, salt []byte) {
	if name := r.String("name"); name != "scrypt" {
		r.FailMember("name", "unknown derivation %.40q", name)
	}
	c = cost{n: int(r.Int("n")), r: int(r.Int("r")), p: int(r.Int("p"))}
	salt = r.Base64("salt", saltBytes, saltBytes)
	if c.n < minScryptN || c.n > maxScryptN || c.n&(c.n-1) != 0 || c.r < 1 || c.r > maxScryptR || c.p < 1 || c.p > maxScryptP {
		r.Fail("cost is out of range")
	}
	return c, salt
}

// sealKeyFile returns the text of a key file that holds the given seeds of the
// identity. Without a passphrase the seeds stand in it as they are, and the
// mode of the file is all that protects them.
func sealKeyFile(kind, aceID string, passphrase []byte, seeds ...*suite.Seed) ([]byte, error) {
	secret := join(seeds)
	defer clear(secret)
	head := wire.NewObject(
		wire.M("ace_key", wire.NewString(kind)),
		wire.M("version", wire.NewInt(1)),
		wire.M("aceId", wire.NewString(aceID)),
	)
	if passphrase == nil {
		return append(head.With("plain", wire.NewString(wire.EncodeBase64(secret))).Canonical(), '\n'), nil
	}
	salt := suite.RandomBytes(saltBytes)
	c := cost{n: scryptN, r: scryptR, p: scryptP}
	head = head.With("kdf", c.object(salt))
	key, err := c.derive(passphrase, salt)
	if err != nil {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	defer clear(key)
	sealed, err := suite.Seal(key, secret, head.Canonical())
	if err != nil {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	return append(head.With("sealed", wire.NewString(wire.EncodeBase64(sealed))).Canonical(), '\n'), nil
}

func join(seeds []*suite.Seed) []byte {
	secret := make([]byte, 0, len(seeds)*suite.SeedBytes)
	for _, s := range seeds {
		b := s.Expose()
		secret = append(secret, b...)
		clear(b)
	}
	return secret
}

// keyFile is a parsed key file, still sealed if it has a derivation.
type keyFile struct {
	aceID  string
	head   []byte // canonical, without the secret: authenticated with it
	sealed []byte
	plain  []byte
	cost   cost
	salt   []byte
}

// readKeyFile reads the file and checks that it is of the given kind.
func readKeyFile(path, kind string) (*keyFile, error) {
	text, err := ownerfile.Read(path, keyFileLimit)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return decodeKeyFile(text, path, kind)
}

// decodeKeyFile is readKeyFile for the text of a file of the given name.
func decodeKeyFile(text []byte, name, kind string) (*keyFile, error) {
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "key file %s", name)
	}
	k, err := parseKeyFile(v, kind)
	return k, fault.Wrapf(fault.StorageFailed, err, "key file %s", name)
}

func parseKeyFile(v wire.Value, kind string) (*keyFile, error) {
	r := wire.NewReader(v, "key")
	if got := r.String("ace_key"); got != kind {
		r.FailMember("ace_key", "is %.40q, not %q", got, kind)
	}
	if r.Int("version") != 1 {
		r.FailMember("version", "made by a newer program")
	}
	k := &keyFile{aceID: r.ACEID("aceId")}
	if r.Has("plain") {
		k.plain = r.Base64("plain", suite.SeedBytes, 2*suite.SeedBytes)
		return k, r.Close()
	}
	kdf := r.Object("kdf")
	k.cost, k.salt = readCost(kdf)
	_ = kdf.Close() // the error is r's as well
	k.sealed = r.Base64("sealed", 1, 4*suite.SeedBytes)
	k.head = v.Without("sealed").Canonical()
	return k, r.Close()
}

func (k *keyFile) encrypted() bool { return k.sealed != nil }

// errPassphrase does not tell a wrong passphrase from a damaged file, because
// nothing before the authentication of the whole file could.
var errPassphrase = errors.New("the passphrase is wrong or the key file is damaged")

// open returns the count seeds of the file.
func (k *keyFile) open(passphrase []byte, count int) ([]*suite.Seed, error) {
	secret := k.plain
	if k.encrypted() {
		if passphrase == nil {
			return nil, fault.New(fault.IdentityUnavailable, "the key is protected by a passphrase and none was given")
		}
		key, err := k.cost.derive(passphrase, k.salt)
		if err != nil {
			return nil, fault.Wrap(fault.IdentityUnavailable, err)
		}
		defer clear(key)
		if secret, err = suite.Open(key, k.sealed, k.head); err != nil {
			return nil, fault.Wrap(fault.IdentityUnavailable, errPassphrase)
		}
	}
	defer clear(secret)
	if len(secret) != count*suite.SeedBytes {
		return nil, fault.New(fault.StorageFailed, "key file holds %d bytes of seeds, not %d", len(secret), count*suite.SeedBytes)
	}
	seeds := make([]*suite.Seed, count)
	for i := range seeds {
		s, err := suite.SeedFromBytes(secret[i*suite.SeedBytes : (i+1)*suite.SeedBytes])
		if err != nil {
			return nil, fault.Wrap(fault.StorageFailed, err)
		}
		seeds[i] = s
	}
	return seeds, nil
}
