package commerce_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzBody: no body that its schema takes makes the rule panic, every failure is
// invalid_body, and what passes has a settlement that is closed for its method.
func FuzzBody(f *testing.F) {
	set := profile.NewSet()
	if err := set.Install(profile.OfficialByID(profile.CommerceID)); err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(4), []byte(invoice))
	f.Add(uint8(5), []byte(`{"referenceId":"1","amount":"1","currency":"USDC","settlement":{"method":"stablecoin","proof":{"txHash":"0x1"}}}`))
	f.Add(uint8(6), []byte(inline))
	f.Fuzz(func(t *testing.T, of uint8, data []byte) {
		types := commerce.Rule{}.Types()
		messageType := types[int(of)%len(types)]
		body, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		installed, _ := set.Type(messageType)
		if installed.Schema.Match(body) != nil {
			return
		}
		if err := commerce.CheckBody(messageType, body); err != nil {
			wantCode(t, err, fault.InvalidBody)
			return
		}
		settlement, _ := body.Get("settlement")
		if method, ok := settlement.Get("method"); ok && method.Equal(wire.NewString("stripe-link")) {
			if len(settlement.Members()) != 2 {
				t.Fatalf("accepted: %s", data)
			}
		}
	})
}
