package kel_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	pinnedID   = "ace:sha256:" + pinnedHash
	pinnedHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// TestEventBytes spells out the canonical bytes of 01#key-event-log.
func TestEventBytes(t *testing.T) {
	p := newPen(t)
	key := string(p.root(0).PublicKey())
	digest, _ := hex.DecodeString(pinnedHash)
	keyObject := wire.NewObject(wire.M("scheme", wire.NewString("ml-dsa-65")), wire.M("publicKey", wire.NewString(wire.EncodeBase64([]byte(key)))))
	event := func(name string, members ...wire.Member) wire.Value {
		return wire.NewObject(append(members, wire.M("t", wire.NewString(name)), wire.M("ts", wire.NewInt(1758140800)))...)
	}
	prev := wire.M("prev", wire.NewString(pinnedHash))
	next := wire.M("next", wire.NewString(pinnedHash))
	for _, c := range []struct {
		event wire.Value
		want  []string
	}{
		{event("icp", wire.M("seq", wire.NewInt(0)), wire.M("root", keyObject), next), []string{
			"\x00\x00\x00\x03icp", "\x00\x00\x00\x010", "\x00\x00\x00\x0a1758140800",
			"\x00\x00\x00\x09ml-dsa-65", "\x00\x00\x07\xa0" + key, "\x00\x00\x00\x20" + string(digest)}},
		{event("rot", wire.M("seq", wire.NewInt(12)), prev, wire.M("root", keyObject), next), []string{
			"\x00\x00\x00\x03rot", "\x00\x00\x00\x0212", "\x00\x00\x00\x0a1758140800", "\x00\x00\x00\x40" + pinnedHash,
			"\x00\x00\x00\x09ml-dsa-65", "\x00\x00\x07\xa0" + key, "\x00\x00\x00\x20" + string(digest)}},
		{event("dlg", wire.M("seq", wire.NewInt(1)), prev, wire.M("key", keyObject)), []string{
			"\x00\x00\x00\x03dlg", "\x00\x00\x00\x011", "\x00\x00\x00\x0a1758140800", "\x00\x00\x00\x40" + pinnedHash,
			"\x00\x00\x00\x09ml-dsa-65", "\x00\x00\x07\xa0" + key, "\x00\x00\x00\x00"}},
		{event("dlg", wire.M("seq", wire.NewInt(1)), prev, wire.M("key", keyObject), wire.M("notAfter", wire.NewInt(1758140801))), []string{
			"\x00\x00\x00\x03dlg", "\x00\x00\x00\x011", "\x00\x00\x00\x0a1758140800", "\x00\x00\x00\x40" + pinnedHash,
			"\x00\x00\x00\x09ml-dsa-65", "\x00\x00\x07\xa0" + key, "\x00\x00\x00\x0a1758140801"}},
	} {
		got, err := kel.EventBytes(c.event)
		must(t, err)
		if string(got) != strings.Join(c.want, "") {
			t.Errorf("%.40s…: bytes are %x", c.event.Canonical(), got)
		}
	}
	_, err := kel.EventBytes(event("icp", wire.M("seq", wire.NewInt(0)), wire.M("root", keyObject), next, prev))
	wantCode(t, err, fault.InvalidKEL)
}

// TestMessage spells out M (02#signatures).
func TestMessage(t *testing.T) {
	for _, c := range []struct {
		seqOrEmpty, want string
	}{
		{"", "\x00\x00\x00\x06ace.v1" + "\x00\x00\x00\x4b" + pinnedID + "\x00\x00\x00\x0a1758140800" + "\x00\x00\x00\x00" + "\x00\x00\x00\x07payload"},
		{"0", "\x00\x00\x00\x06ace.v1" + "\x00\x00\x00\x4b" + pinnedID + "\x00\x00\x00\x0a1758140800" + "\x00\x00\x00\x010" + "\x00\x00\x00\x07payload"},
	} {
		if got := kel.Message(pinnedID, 1758140800, c.seqOrEmpty, []byte("payload")); string(got) != c.want {
			t.Errorf("M with seq %q is %q", c.seqOrEmpty, got)
		}
	}
}

func TestCommitment(t *testing.T) {
	if got, want := kel.Commitment("ml-dsa-65", []byte("key")), suite.Hex256([]byte("ml-dsa-65\x00key")); got != want {
		t.Errorf("commitment %s, want %s", got, want)
	}
}

// TestEventSignature checks that an event's signature is over M with the ACE ID
// of the log, the event's ts, no seq and the canonical bytes, in the context kel.
func TestEventSignature(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg")
	root, err := suite.ParseVerifyKey(s.Root())
	must(t, err)
	for i, event := range s.Value().Items() {
		b, err := kel.EventBytes(event)
		must(t, err)
		if suite.Hex256(b) != s.Events()[i].Hash {
			t.Errorf("event %d: hash is not that of its canonical bytes", i)
		}
		sig, _ := event.Get("sig")
		value, _ := sig.Get("value")
		text, _ := value.AsString()
		raw, err := wire.DecodeBase64(text)
		must(t, err)
		if !root.Verify(kel.Message(s.ACEID(), s.Events()[i].TS, "", b), raw, "kel") {
			t.Errorf("event %d: signature is over something else", i)
		}
	}
}
