package interop

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	agentFile = "agent.json"
	cardFile  = "card.json"

	driverRelay        = "https://relay.interop.test"
	descriptorLifetime = 86400 // seconds
	maxInputBytes      = 16 << 20
)

// genIdentity makes an identity with one prekey and writes its PublishedAgent
// and CardBundle (interop#gen-identity---handle-h---now-n).
func genIdentity(o *options) error {
	handle, hasHandle := o.values["handle"]
	if hasHandle && !wire.IsHandle(handle) {
		return fmt.Errorf("%w: --handle %q is no handle", errArguments, handle)
	}
	if err := os.MkdirAll(o.path, 0o700); err != nil {
		return err
	}
	v, err := newVault(o.path, o.now)
	if err != nil {
		return err
	}
	text := officialProfile(profile.TextID)
	agent, err := descriptor.Build(v.identity(), descriptor.Fields{
		ExpiresAt: o.now + descriptorLifetime,
		Relays:    []string{driverRelay},
		Prekey:    v.published.Current.PublicKey,
		Profiles:  []descriptor.Profile{{ID: text.ID, Digest: text.Digest}},
	}, o.now, -1, descriptor.Options{})
	if err != nil {
		return err
	}
	record := descriptor.CardRecord{Home: driverRelay, Handle: handle, Contact: "open"}
	card, err := descriptor.BuildCard(v.identity(), record, o.now, -1, descriptor.Options{})
	if err != nil {
		return err
	}
	if err := v.save(); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(o.path, agentFile), agent.Value()); err != nil {
		return err
	}
	return writeJSON(filepath.Join(o.path, cardFile), card.Value())
}

// newVault makes an identity whose root keys are given up at once: the driver
// never rotates.
func newVault(dir string, now int64) (*vault, error) {
	root, next := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	defer root.Destroy()
	defer next.Destroy()
	log, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
	if err != nil {
		return nil, err
	}
	signing := suite.NewSeed()
	log, err = log.Delegate(root, suite.NewSigningKey(signing).PublicKey(), now, now+wire.MaxSigningKeyLifetime)
	if err != nil {
		return nil, err
	}
	published, _ := prekey.Published{}.Rotate(prekey.Generate(), now)
	return &vault{dir: dir, log: log, signing: signing, published: published, issuers: map[string]prekey.Issuer{}}, nil
}

// verifyCard verifies a CardBundle and prints what it says, on one line
// (interop#verify-card---now-n).
func verifyCard(o *options, stdout io.Writer) error {
	data, err := readInput(o.path)
	if err != nil {
		return err
	}
	b, err := descriptor.VerifyCard(data, o.now, descriptor.Options{})
	if err != nil {
		return printRejection(stdout, err)
	}
	members := []wire.Member{
		boolean("ok", true), str("aceId", b.ACEID), str("contact", b.Contact), boolean("listed", b.Listed),
	}
	if b.Handle != "" {
		members = append(members, str("handle", b.Handle))
	}
	return printLine(stdout, facts(members...))
}

func printRejection(w io.Writer, err error) error {
	v, err := rejection(err)
	if err != nil {
		return err
	}
	return printLine(w, v)
}

// rejection is the answer to something that the protocol rejects. Any other
// failure is one of the driver itself.
func rejection(err error) (wire.Value, error) {
	code := fault.CodeOf(err)
	if code == "" || code.Category() != fault.Permanent {
		return wire.Value{}, err
	}
	return facts(str("error", string(code))), nil
}

func printLine(w io.Writer, v wire.Value) error {
	_, err := w.Write(append(v.Canonical(), '\n'))
	return err
}

func readInput(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxInputBytes+1))
	if err == nil && len(data) > maxInputBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxInputBytes)
	}
	return data, err
}

func writeJSON(path string, v wire.Value) error {
	return os.WriteFile(path, append(v.Canonical(), '\n'), 0o644)
}
