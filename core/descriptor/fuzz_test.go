package descriptor_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// What is accepted is the canonical form of itself, and reads back from the
// store. The seeds of the corpus are vectors, one of each signed under a key
// that the fuzzer does not have.

func FuzzPublishedAgent(f *testing.F) {
	f.Add(build(f, newPerson(f, now-100), fullFields(), now, -1).Raw())
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := descriptor.Verify(data, now, descriptor.Options{})
		if err != nil {
			checkFuzzCode(t, err)
			checkStored(t, data)
			return
		}
		checkCanonical(t, data, a.Raw())
		s, err := descriptor.DecodeStored(a.Raw())
		if err != nil || s.KELEnd() != a.KELEnd() || s.ClaimsDigest() != a.ClaimsDigest() {
			t.Fatalf("reads back from the store as another: %v", err)
		}
	})
}

func FuzzCardBundle(f *testing.F) {
	f.Add(buildCard(f, newPerson(f, now-100), fullRecord(), now, -1).Raw())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := descriptor.VerifyCard(data, now, descriptor.Options{})
		if err != nil {
			checkFuzzCode(t, err)
			checkStored(t, data)
			return
		}
		checkCanonical(t, data, b.Raw())
		s, err := descriptor.DecodeStoredCard(b.Raw())
		if err != nil || s.KELEnd() != b.KELEnd() || s.ClaimsDigest() != b.ClaimsDigest() {
			t.Fatalf("reads back from the store as another: %v", err)
		}
	})
}

func checkFuzzCode(t *testing.T, err error) {
	switch code := fault.CodeOf(err); code {
	case fault.InvalidAuthorization, fault.InvalidKEL, fault.InvalidSignature, fault.StalePeerBinding:
	default:
		t.Fatalf("code %q: %v", code, err)
	}
}

// checkStored reads data as a stored document of either kind: it may be any
// bytes, and a code is all that is asked.
func checkStored(t *testing.T, data []byte) {
	_, a := descriptor.DecodeStored(data)
	_, b := descriptor.DecodeStoredCard(data)
	if a != nil && fault.CodeOf(a) != fault.StorageFailed || b != nil && fault.CodeOf(b) != fault.StorageFailed {
		t.Fatalf("codes %q and %q", fault.CodeOf(a), fault.CodeOf(b))
	}
}

func checkCanonical(t *testing.T, data, raw []byte) {
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil || !bytes.Equal(v.Canonical(), raw) {
		t.Fatalf("Raw is not the canonical form (%v)", err)
	}
}
