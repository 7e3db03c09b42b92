package suite

import (
	"runtime"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/ace-toolkit/ace/core/suite/testdata/vectorstate"
)

// TestUpperStateIsClear looks at the registers after each call that reaches
// circl. It needs no clock, so it also fails on the processors where a soiled
// upper state costs nothing.
func TestUpperStateIsClear(t *testing.T) {
	if !cpu.X86.HasAVX2 || !vectorstate.Readable() {
		t.Skip("this processor does not tell which registers are in use")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	vectorstate.Soil()
	soiled := vectorstate.UpperInUse()
	vectorstate.Clear()
	if clean := !vectorstate.UpperInUse(); !soiled || !clean {
		t.Skipf("in-use bit does not follow the registers: soiled %v, clean %v", soiled, clean)
	}

	seed := NewSeed()
	signing, prekey := NewSigningKey(seed), NewDecapsulationKey(seed)
	verify, err := ParseVerifyKey(signing.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	encapsulation, err := ParseEncapsulationKey(prekey.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signing.Sign(nil, "packet")
	if err != nil {
		t.Fatal(err)
	}
	_, ct, err := encapsulation.Encapsulate()
	if err != nil {
		t.Fatal(err)
	}

	calls := []struct {
		name string
		call func()
	}{
		{"NewSigningKey", func() { NewSigningKey(seed) }},
		{"Sign", func() { signing.Sign(nil, "packet") }},
		{"ParseVerifyKey", func() { ParseVerifyKey(signing.public) }},
		{"Bytes", func() { verify.Bytes() }},
		{"Verify", func() { verify.Verify(nil, sig, "packet") }},
		{"Verify of a bad signature", func() { verify.Verify(nil, make([]byte, SignatureBytes), "packet") }},
		{"NewDecapsulationKey", func() { NewDecapsulationKey(seed) }},
		{"ParseEncapsulationKey", func() { ParseEncapsulationKey(prekey.public) }},
		{"Encapsulate", func() { encapsulation.Encapsulate() }},
		{"Decapsulate", func() { prekey.Decapsulate(ct) }},
	}
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range 20 {
				c.call()
				if vectorstate.UpperInUse() {
					t.Fatal("returned with the upper vector registers in use")
				}
			}
		})
	}
}
