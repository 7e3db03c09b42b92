package kel_test

import (
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// member replaces one member of an event to be forged.
type member struct {
	name  string
	value wire.Value
}

// forge returns the JSON of an event that follows prev events of a log, signed
// by root whatever it says: what the builders refuse, others may still send.
func (p *pen) forge(log []wire.Value, name string, root *suite.SigningKey, key []byte, replace ...member) wire.Value {
	p.t.Helper()
	keyObject := wire.NewObject(
		wire.M("scheme", wire.NewString(wire.SchemeMLDSA65)),
		wire.M("publicKey", wire.NewString(wire.EncodeBase64(key))))
	n := int64(len(log))
	event := wire.NewObject(wire.M("t", wire.NewString(name)), wire.M("seq", wire.NewInt(n)), wire.M("ts", wire.NewInt(dayOne+n)))
	if name == kel.Delegation {
		event = event.With("key", keyObject)
	} else {
		event = event.With("root", keyObject).With("next", wire.NewString(p.commitment(p.root(1))))
	}
	if name != kel.Inception {
		event = event.With("prev", wire.NewString(p.hash(log[n-1])))
	}
	for _, m := range replace {
		event = event.With(m.name, m.value)
	}
	b, err := kel.EventBytes(event)
	must(p.t, err)
	aceID := wire.ACEID(suite.Hex256(b))
	if n > 0 {
		aceID = wire.ACEID(p.hash(log[0]))
	}
	ts, _ := event.Get("ts")
	at, _ := ts.AsInt()
	sig, err := root.Sign(kel.Message(aceID, at, "", b), kel.ActionKEL)
	must(p.t, err)
	return event.With("sig", wire.NewObject(
		wire.M("scheme", wire.NewString(wire.SchemeMLDSA65)),
		wire.M("value", wire.NewString(wire.EncodeBase64(sig)))))
}

func (p *pen) hash(event wire.Value) string {
	b, err := kel.EventBytes(event)
	must(p.t, err)
	return suite.Hex256(b)
}

// delegations returns a log of an inception and n delegations.
func (p *pen) delegations(n int) []wire.Value {
	p.t.Helper()
	log := []wire.Value{p.forge(nil, kel.Inception, p.root(0), p.root(0).PublicKey())}
	key := p.signing(0).PublicKey()
	for range n {
		log = append(log, p.forge(log, kel.Delegation, p.root(0), key))
	}
	return log
}

func verified(p *pen, log []wire.Value) *kel.State {
	p.t.Helper()
	s, err := kel.Verify(wire.NewArray(log...), later)
	must(p.t, err)
	return s
}
