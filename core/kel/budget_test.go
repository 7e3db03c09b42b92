package kel

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

// TestMaxEventBytes builds the longest events there are.
func TestMaxEventBytes(t *testing.T) {
	digest := strings.Repeat("f", 64)
	base := entry{
		Event:  Event{Seq: wire.MaxKELEvents - 1, TS: wire.MaxInt, Prev: digest, Key: make([]byte, wire.PublicKeyBytes)},
		scheme: wire.SchemeMLDSA65,
		sig:    rootSignature{scheme: wire.SchemeMLDSA65, value: make([]byte, wire.SignatureBytes)},
	}
	rot, dlg := base, base
	rot.Type, rot.Next = Rotation, digest
	dlg.Type, dlg.NotAfter, dlg.bounded = Delegation, wire.MaxInt, true
	longest := 0
	for _, e := range []entry{rot, dlg} {
		v := e.value()
		longest = max(longest, len(v.Canonical())+len(","))
	}
	if longest > maxEventBytes || longest < maxEventBytes-64 {
		t.Errorf("the longest event takes %d bytes, the bound is %d", longest, maxEventBytes)
	}
}

// TestMaxDescriptorBytes fills every member of 04#fields to its bound.
func TestMaxDescriptorBytes(t *testing.T) {
	text := func(s string, n int) wire.Value { return wire.NewString(strings.Repeat(s, n)) }
	relay := text("𐍈", 2048) // four bytes of UTF-8 each
	profiles := make([]wire.Value, 32)
	for i := range profiles {
		profiles[i] = wire.NewObject(wire.M("id", text("a", wire.MaxTypeBytes)), wire.M("digest", text("0", 64)))
	}
	const braces = len(`{"":""}`)
	agent := wire.NewObject(
		wire.M("kel", wire.NewArray()),
		wire.M("descriptor", wire.NewObject(
			wire.M("aceId", text("0", len("ace:sha256:")+64)),
			wire.M("issuedAt", wire.NewInt(wire.MaxInt)),
			wire.M("expiresAt", wire.NewInt(wire.MaxInt)),
			wire.M("relays", wire.NewArray(relay, relay, relay, relay)),
			wire.M("prekey", wire.NewObject(
				wire.M("id", text("0", 64)),
				wire.M("publicKey", text("0", wire.Base64Len(wire.PrekeyBytes))))),
			wire.M("profiles", wire.NewArray(profiles...)),
			wire.M("ext", wire.NewObject(wire.M("", text("0", wire.MaxExtBytes-braces)))),
			wire.M("signature", wire.Signature{Seq: wire.MaxInt, Value: make([]byte, wire.SignatureBytes)}.Object()))))
	if got := len(agent.Canonical()) - len("[]"); got > maxDescriptorBytes {
		t.Errorf("the largest descriptor takes %d bytes, the bound is %d", got, maxDescriptorBytes)
	}
}
