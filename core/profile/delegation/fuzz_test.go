package delegation_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzMessage: no body makes the check panic, every failure is invalid_body,
// and what is accepted on receive was signed by the sender.
func FuzzMessage(f *testing.F) {
	from, to := newPerson(f, now-100), newPerson(f, now-100)
	genuine := build(f, from, to, now+1000)
	body := func(credential wire.Value) wire.Value {
		return wire.NewObject(wire.M("credential", credential))
	}
	f.Add(body(genuine.Value()).Canonical())
	f.Add(body(genuine.Value().With("expiresAt", wire.NewInt(now))).Canonical())
	f.Add([]byte(`{"credential":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		for _, d := range []profile.Direction{profile.Send, profile.Receive} {
			err := delegation.CheckMessage(v, d, from.state.ACEID(), to.state.ACEID(), from.state, now)
			if err != nil {
				wantCode(t, err, fault.InvalidBody)
			} else if d == profile.Receive && !v.Equal(body(genuine.Value())) {
				t.Fatalf("accepted: %s", data)
			}
		}
	})
}
