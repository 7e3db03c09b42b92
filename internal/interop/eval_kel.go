package interop

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalKEL verifies a log and states what it says (01#verifier-rules).
func evalKEL(a *args, now int64) (wire.Value, error) {
	log, parseErr := a.object("kel", fault.InvalidKEL)
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if parseErr != nil {
		return wire.Value{}, parseErr
	}
	s, err := kel.Verify(log, now)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(
		str("aceId", s.ACEID()),
		num("seq", s.Seq()),
		str("lastHash", s.LastHash()),
		boolean("usable", s.Usable(now)),
		str("rootSha256", suite.Hex256(s.Root())),
		str("next", s.Next()),
		wire.M("delegation", delegationFacts(s.Delegated())),
	), nil
}

func delegationFacts(d *kel.Delegated) wire.Value {
	if d == nil {
		return wire.Value{}
	}
	notAfter := wire.Value{}
	if d.NotAfter != 0 {
		notAfter = wire.NewInt(d.NotAfter)
	}
	return facts(num("seq", d.Seq), num("ts", d.TS), str("keySha256", suite.Hex256(d.Key)), wire.M("notAfter", notAfter))
}

// storedLog verifies a log that was verified before it was stored: its times
// were bounded by the clock then. Code: storage_failed (01#pinning).
func storedLog(v wire.Value) (*kel.State, error) {
	s, err := kel.Verify(v, wire.MaxInt)
	return s, fault.Wrapf(fault.StorageFailed, err, "stored log")
}

// evalKELReconcile verifies a candidate and compares it with a pinned log, null
// for none (01#pinning).
func evalKELReconcile(a *args, now int64) (wire.Value, error) {
	pinned, log := a.r.Value("pin"), a.r.Value("candidate")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	candidate, err := kel.Verify(log, now)
	if err != nil {
		return wire.Value{}, err
	}
	var pin *kel.State
	if pinned.Kind() != wire.Null {
		if pin, err = storedLog(pinned); err != nil {
			return wire.Value{}, err
		}
	}
	outcome, s, err := kel.Reconcile(pin, candidate)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(str("result", string(outcome)), num("seq", s.Seq()), str("lastHash", s.LastHash())), nil
}
