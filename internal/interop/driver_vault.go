package interop

import (
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	vaultFile     = "secrets.json" // mode 0600
	maxVaultBytes = 64 << 20
)

// vault is what an identity of the driver keeps: its log, its signing key and
// its prekeys, published and offered.
type vault struct {
	dir       string
	log       *kel.State
	signing   *suite.Seed
	published prekey.Published
	issuers   map[string]prekey.Issuer // by peer
}

func (v *vault) identity() *kel.Identity {
	return kel.NewIdentity(v.log, suite.NewSigningKey(v.signing))
}

// issuer returns the keys offered to a peer.
func (v *vault) issuer(peer string) prekey.Issuer {
	if i, ok := v.issuers[peer]; ok {
		return i
	}
	return prekey.Issuer{Peer: peer}
}

// find returns the key that may open a packet of from at now.
func (v *vault) find(id, from string, now int64) (prekey.Key, bool) {
	if k, ok := v.published.Find(id, now); ok {
		return k, true
	}
	return v.issuer(from).Find(id, from, now)
}

// opened applies the issuer's rules to a packet that opened (04#peer-prekeys).
func (v *vault) opened(id, from string, now int64) error {
	for peer, i := range v.issuers {
		v.issuers[peer], _ = i.Prune(now)
	}
	if i, ok := v.issuers[from]; ok {
		v.issuers[from], _ = i.Opened(id, now)
	}
	return v.save()
}

func (v *vault) save() error {
	peers := make([]wire.Member, 0, len(v.issuers))
	for peer, i := range v.issuers {
		peers = append(peers, wire.M(peer, facts(
			wire.M("offered", offerValue(i.Offered)), wire.M("inUse", offerValue(i.InUse)))))
	}
	secrets := facts(
		wire.M("kel", v.log.Value()),
		wire.M("signing", seedValue(v.signing)),
		wire.M("prekey", seedValue(v.published.Current.Seed)),
		wire.M("peers", wire.NewObject(peers...)),
	)
	return ownerfile.Write(filepath.Join(v.dir, vaultFile), secrets.Canonical())
}

func offerValue(o *prekey.Offer) wire.Value {
	if o == nil {
		return wire.Value{}
	}
	return facts(wire.M("seed", seedValue(o.Seed)), num("carried", o.Carried))
}

func seedValue(s *suite.Seed) wire.Value {
	secret := s.Expose()
	defer clear(secret)
	return wire.NewString(hex.EncodeToString(secret))
}

func loadVault(dir string, now int64) (*vault, error) {
	data, err := ownerfile.Read(filepath.Join(dir, vaultFile), maxVaultBytes)
	if err != nil {
		return nil, err
	}
	secrets, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vaultFile, err)
	}
	r := wire.NewReader(secrets, vaultFile)
	v := &vault{dir: dir, signing: readSeed(r, "signing"), issuers: map[string]prekey.Issuer{}}
	published := readSeed(r, "prekey")
	log, peers := r.Value("kel"), r.Value("peers")
	if err := r.Close(); err != nil {
		return nil, err
	}
	v.published.Current = prekey.NewKey(published)
	if v.log, err = kel.Verify(log, now); err != nil {
		return nil, err
	}
	for _, m := range peers.Members() {
		o := wire.NewReader(m.Value, vaultFile)
		v.issuers[m.Key] = prekey.Issuer{Peer: m.Key, Offered: readOffer(o, "offered"), InUse: readOffer(o, "inUse")}
		if err := o.Close(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func readOffer(r *wire.Reader, name string) *prekey.Offer {
	v := r.Value(name)
	if v.Kind() == wire.Null {
		return nil
	}
	o := wire.NewReader(v, vaultFile+" "+name)
	seed, carried := readSeed(o, "seed"), o.Int("carried")
	if err := o.Close(); err != nil {
		r.FailMember(name, "%v", err)
		return nil
	}
	return &prekey.Offer{Key: prekey.NewKey(seed), Carried: carried}
}

func readSeed(r *wire.Reader, name string) *suite.Seed {
	secret := decodeHexMember(r, name)
	defer clear(secret)
	seed, err := suite.SeedFromBytes(secret)
	if err != nil {
		r.FailMember(name, "%v", err)
	}
	return seed
}
