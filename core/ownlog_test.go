package core

import (
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Of the logs that a relay serves with two documents the one that supersedes the
// other counts, whichever comes first.
func TestOwnRecordTakesTheNewerLog(t *testing.T) {
	const now = 1760140800
	key := func() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }
	root, next := key(), key()
	old, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
	if err != nil {
		t.Fatal(err)
	}
	grow := func(s *kel.State, err error) *kel.State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	longer := grow(old.Delegate(root, key().PublicKey(), now, 0))
	recovered := grow(longer.Recover(next, kel.Commitment(wire.SchemeMLDSA65, key().PublicKey()), now))
	other := grow(kel.Incept(key(), kel.Commitment(wire.SchemeMLDSA65, key().PublicKey()), now))
	for name, c := range map[string]struct {
		served []*kel.State
		want   *kel.State
		code   fault.Code
	}{
		"longer second":      {[]*kel.State{old, longer}, longer, ""},
		"longer first":       {[]*kel.State{longer, old}, longer, ""},
		"recovered second":   {[]*kel.State{longer, recovered}, recovered, ""},
		"recovered first":    {[]*kel.State{recovered, longer}, recovered, ""},
		"of somebody else":   {[]*kel.State{old, other}, old, fault.KELConflict},
		"of somebody's only": {[]*kel.State{other}, nil, fault.KELConflict},
	} {
		var r OwnRecord
		var err error
		for _, log := range c.served {
			err = r.take(wire.NewObject(wire.M("kel", log.Value())), old.ACEID(), now)
		}
		if r.Log != c.want && (r.Log == nil || c.want == nil || r.Log.LastHash() != c.want.LastHash()) {
			t.Errorf("%s: another log", name)
		}
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
