package descriptor_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1_760_140_800

// person is an identity with all its keys. Its methods append one event each
// and leave the receiver as it was, so that a test can draw forks.
type person struct {
	root, next, signing *suite.SigningKey
	state               *kel.State
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

func commitment(k *suite.SigningKey) string {
	return kel.Commitment(wire.SchemeMLDSA65, k.PublicKey())
}

// newPerson is an icp at ts and a dlg a second later.
func newPerson(t testing.TB, ts int64) person {
	t.Helper()
	p := person{root: newKey(), next: newKey()}
	var err error
	if p.state, err = kel.Incept(p.root, commitment(p.next), ts); err != nil {
		t.Fatal(err)
	}
	return p.dlg(t, ts+1, 0)
}

func (p person) dlg(t testing.TB, ts, notAfter int64) person {
	t.Helper()
	p.signing = newKey()
	var err error
	if p.state, err = p.state.Delegate(p.root, p.signing.PublicKey(), ts, notAfter); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p person) rot(t testing.TB, ts int64) person {
	t.Helper()
	next := newKey()
	state, err := p.state.Rotate(p.next, commitment(next), ts)
	if err != nil {
		t.Fatal(err)
	}
	return person{root: p.next, next: next, signing: p.signing, state: state}
}

// recovery is a rot at the start of the epoch.
func (p person) recovery(t testing.TB, ts int64) person {
	t.Helper()
	next := newKey()
	state, err := p.state.Recover(p.next, commitment(next), ts)
	if err != nil {
		t.Fatal(err)
	}
	return person{root: p.next, next: next, signing: p.signing, state: state}
}

func (p person) id() *kel.Identity { return kel.NewIdentity(p.state, p.signing) }

var prekey = suite.NewDecapsulationKey(suite.NewSeed()).PublicKey()

func fields() descriptor.Fields {
	return descriptor.Fields{
		ExpiresAt: now + 3600,
		Relays:    []string{"https://relay.example"},
		Prekey:    prekey,
		Profiles:  []descriptor.Profile{{ID: "ace:text:1", Digest: suite.Hex256([]byte("text"))}},
	}
}

func record() descriptor.CardRecord {
	return descriptor.CardRecord{Home: "https://relay.example", Contact: descriptor.ContactOpen}
}

func build(t testing.TB, p person, f descriptor.Fields, at, previous int64) *descriptor.PublishedAgent {
	t.Helper()
	a, err := descriptor.Build(p.id(), f, at, previous, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func buildCard(t testing.TB, p person, r descriptor.CardRecord, at, previous int64) *descriptor.CardBundle {
	t.Helper()
	b, err := descriptor.BuildCard(p.id(), r, at, previous, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != want {
		t.Errorf("code %q, want %q (%v)", got, want, err)
	}
}

// edit returns v with the member at the end of the path set.
func edit(v wire.Value, member wire.Value, path ...string) wire.Value {
	if len(path) == 1 {
		return v.With(path[0], member)
	}
	inner, _ := v.Get(path[0])
	return v.With(path[0], edit(inner, member, path[1:]...))
}

// cut returns v without the member at the end of the path.
func cut(v wire.Value, path ...string) wire.Value {
	if len(path) == 1 {
		return v.Without(path[0])
	}
	inner, _ := v.Get(path[0])
	return v.With(path[0], cut(inner, path[1:]...))
}

func str(s string) wire.Value { return wire.NewString(s) }
func num(n int64) wire.Value  { return wire.NewInt(n) }
