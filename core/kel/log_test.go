package kel_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestOrder breaks two rules of 01#verifier-rules at once: the one that comes
// first in the text decides. The rules one by one are in testdata/vectors.
func TestOrder(t *testing.T) {
	p := newPen(t)
	root, key := p.root(0), p.signing(0).PublicKey()
	stranger := p.key("stranger")
	icp := p.forge(nil, kel.Inception, root, root.PublicKey())
	log := func(events ...wire.Value) []wire.Value { return append([]wire.Value{icp}, events...) }
	next := func(events []wire.Value, name string, signer *suite.SigningKey, key []byte, replace ...member) []wire.Value {
		return append(events[:len(events):len(events)], p.forge(events, name, signer, key, replace...))
	}
	badSig := next(log(), kel.Delegation, stranger, key)
	expired := member{"notAfter", wire.NewInt(0)}

	for _, c := range []struct {
		name string
		log  []wire.Value
		want fault.Code
	}{
		{"good", next(log(), kel.Delegation, root, key), ""},
		{"badly signed", badSig, fault.InvalidSignature},
		// Rule 1, of the whole log, precedes every signature.
		{"badly signed, then a seq gap", next(badSig, kel.Delegation, root, key, member{"seq", wire.NewInt(7)}), fault.InvalidKEL},
		{"badly signed, then a ts that decreases", next(badSig, kel.Delegation, root, key, member{"ts", wire.NewInt(dayOne)}), fault.InvalidKEL},
		{"badly signed, then a ts ahead", next(badSig, kel.Delegation, root, key, member{"ts", wire.NewInt(later + 301)}), fault.InvalidKEL},
		{"badly signed, then another prev", next(badSig, kel.Delegation, root, key, member{"prev", wire.NewString(p.hash(icp))}), fault.InvalidKEL},
		{"badly signed, then an icp", next(badSig, kel.Inception, root, root.PublicKey()), fault.InvalidKEL},
		// So do the commitments of rule 3.
		{"badly signed, then a rot to another root", next(badSig, kel.Rotation, stranger, stranger.PublicKey()), fault.InvalidKEL},
		// Rule 4: the signature, then the key, then notAfter.
		{"badly signed, key of another length", next(log(), kel.Delegation, stranger, key[1:]), fault.InvalidSignature},
		{"badly signed, notAfter out of bounds", next(log(), kel.Delegation, stranger, key, expired), fault.InvalidSignature},
		{"key of another length", next(log(), kel.Delegation, root, key[1:]), fault.InvalidKEL},
		{"notAfter 0", next(log(), kel.Delegation, root, key, expired), fault.InvalidKEL},
		// Event by event: the first one that fails decides.
		{"notAfter 0, then badly signed", next(next(log(), kel.Delegation, root, key, expired), kel.Delegation, stranger, key), fault.InvalidKEL},
		{"badly signed, then notAfter 0", next(badSig, kel.Delegation, root, key, expired), fault.InvalidSignature},
		// Rule 3: the new root signs, the old one takes no part.
		{"rot", next(log(), kel.Rotation, p.root(1), p.root(1).PublicKey()), ""},
		{"rot signed by the old root", next(log(), kel.Rotation, root, p.root(1).PublicKey()), fault.InvalidSignature},
		{"dlg by the old root after a rot", next(next(log(), kel.Rotation, p.root(1), p.root(1).PublicKey()), kel.Delegation, root, key), fault.InvalidSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := kel.Verify(wire.NewArray(c.log...), later)
			wantCode(t, err, c.want)
		})
	}
}

// TestEventCount: MAX_KEL_EVENTS is a bound of the verifier too.
func TestEventCount(t *testing.T) {
	p := newPen(t)
	log := p.delegations(wire.MaxKELEvents)
	s := verified(p, log[:wire.MaxKELEvents])
	if s.Seq() != wire.MaxKELEvents-1 {
		t.Errorf("seq %d", s.Seq())
	}
	_, err := kel.Verify(wire.NewArray(log...), later)
	wantCode(t, err, fault.InvalidKEL)
}

// TestClock: a clock that is no wire integer verifies nothing (02#wire-integers).
func TestClock(t *testing.T) {
	log := newPen(t).draw("icp")
	for _, now := range []int64{-1, wire.MaxInt + 1} {
		_, err := kel.Verify(log.Value(), now)
		wantCode(t, err, fault.InvalidArgument)
	}
	_, err := kel.Verify(log.Value(), log.LastTS()-wire.TimestampWindowSeconds)
	must(t, err)
	_, err = kel.Verify(log.Value(), log.LastTS()-wire.TimestampWindowSeconds-1)
	wantCode(t, err, fault.InvalidKEL)
}

// TestForms: a log is the same log however its JSON is written.
func TestForms(t *testing.T) {
	s := newPen(t).draw("icp -> dlg")
	for _, form := range []struct{ from, to string }{
		{`"seq":1,`, `"seq":1.0,`},
		{`"seq":1,`, `"seq":10e-1,`},
		{`"ts":1758140800`, `"ts":17581408e2`},
		{`{"key":`, " {\n\"key\" : "},
		{`"t":"icp"`, `"t":"\u0069cp"`},
	} {
		text := bytes.Replace(s.Raw(), []byte(form.from), []byte(form.to), 1)
		if bytes.Equal(text, s.Raw()) {
			t.Fatalf("%s is not in the log", form.from)
		}
		v, err := wire.Parse(text, wire.MaxJSONDepth)
		must(t, err)
		again, err := kel.Verify(v, later)
		must(t, err)
		if again.Digest() != s.Digest() {
			t.Errorf("%s makes another log", form.to)
		}
	}
}
