package packet_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1760140800

// newIdentity makes an identity whose delegation started a day before now.
func newIdentity(t testing.TB) *kel.Identity {
	t.Helper()
	root, next, signing := newKey(), newKey(), newKey()
	log, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now-86400)
	if err != nil {
		t.Fatal(err)
	}
	log, err = log.Delegate(root, signing.PublicKey(), now-86400, now+86400)
	if err != nil {
		t.Fatal(err)
	}
	return kel.NewIdentity(log, signing)
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// newPrekey returns both halves of a recipient's prekey.
func newPrekey(t testing.TB) (*suite.EncapsulationKey, *suite.DecapsulationKey) {
	t.Helper()
	private := suite.NewDecapsulationKey(suite.NewSeed())
	public, err := suite.ParseEncapsulationKey(private.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

var recipient = wire.ACEID(strings.Repeat("2", 64))

func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.CodeOf(err), code)
	}
}

func seal(t testing.TB, from *kel.Identity, key *suite.EncapsulationKey, plaintext string) *packet.Packet {
	t.Helper()
	p, err := packet.Seal(from, recipient, suite.NewMessageID(), now, []byte(plaintext), key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSealOpen(t *testing.T) {
	sender := newIdentity(t)
	public, private := newPrekey(t)
	for _, plaintext := range []string{"", "hello", strings.Repeat("x", wire.MaxPlaintextBytes)} {
		p, err := packet.Decode(seal(t, sender, public, plaintext).Raw())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.VerifySignature(sender.State(), now); err != nil {
			t.Fatal(err)
		}
		if p.Prekey != packet.PrekeyID(private.PublicKey()) {
			t.Errorf("prekey %s", p.Prekey)
		}
		got, err := p.Open(private)
		if err != nil || string(got) != plaintext {
			t.Fatalf("%d bytes: %v", len(got), err)
		}
	}
}

func TestEveryPacketHasItsOwnSecret(t *testing.T) {
	sender := newIdentity(t)
	public, _ := newPrekey(t)
	a, b := seal(t, sender, public, "same"), seal(t, sender, public, "same")
	if bytes.Equal(a.KEMCiphertext, b.KEMCiphertext) || bytes.Equal(a.Payload, b.Payload) {
		t.Fatal("two packets share a secret or a nonce")
	}
}

func TestSealRefuses(t *testing.T) {
	sender := newIdentity(t)
	public, _ := newPrekey(t)
	id := suite.NewMessageID()
	for _, c := range []struct {
		name, to, id string
		t            int64
		size         int
		code         fault.Code
	}{
		{"no ACE ID", "bob", id, now, 1, fault.InvalidArgument},
		{"to itself", sender.ACEID(), id, now, 1, fault.InvalidArgument},
		{"no message ID", recipient, strings.ToUpper(id), now, 1, fault.InvalidArgument},
		{"negative time", recipient, id, -1, 1, fault.InvalidArgument},
		{"too large", recipient, id, now, wire.MaxPlaintextBytes + 1, fault.InvalidArgument},
		{"before its delegation", recipient, id, now - 86401, 1, fault.IdentityUnavailable},
		{"after its delegation", recipient, id, now + 86400, 1, fault.IdentityUnavailable},
	} {
		_, err := packet.Seal(sender, c.to, c.id, c.t, make([]byte, c.size), public)
		wantCode(t, c.name, err, c.code)
	}
}

// TestSignatureCommitsToEverything changes one field at a time.
func TestSignatureCommitsToEverything(t *testing.T) {
	sender := newIdentity(t)
	public, _ := newPrekey(t)
	p := seal(t, sender, public, "hello")
	for name, change := range map[string]func(*packet.Packet){
		"messageId":     func(p *packet.Packet) { p.MessageID = suite.NewMessageID() },
		"to":            func(p *packet.Packet) { p.To = wire.ACEID(strings.Repeat("3", 64)) },
		"timestamp":     func(p *packet.Packet) { p.Timestamp++ },
		"prekey":        func(p *packet.Packet) { p.Prekey = strings.Repeat("0", 64) },
		"kemCiphertext": func(p *packet.Packet) { p.KEMCiphertext = flip(p.KEMCiphertext) },
		"payload":       func(p *packet.Packet) { p.Payload = flip(p.Payload) },
		"signature":     func(p *packet.Packet) { p.Signature.Value = flip(p.Signature.Value) },
	} {
		changed := *p
		change(&changed)
		wantCode(t, name, changed.VerifySignature(sender.State(), now), fault.InvalidSignature)
	}
	changed := *p
	changed.Signature.Seq++
	wantCode(t, "seq", changed.VerifySignature(sender.State(), now), fault.StalePeerBinding)
	wantCode(t, "log of another", p.VerifySignature(newIdentity(t).State(), now), fault.InvalidSignature)
	wantCode(t, "delegation ended", p.VerifySignature(sender.State(), now+86400), fault.StalePeerBinding)
	wantCode(t, "unchanged", p.VerifySignature(sender.State(), now), "")
}

func flip(b []byte) []byte {
	c := bytes.Clone(b)
	c[len(c)/2] ^= 1
	return c
}

// TestHeaderBindsThePacket opens a ciphertext under changed header fields, as a
// thief who signs it anew would have it (03#encryption).
func TestHeaderBindsThePacket(t *testing.T) {
	public, private := newPrekey(t)
	p := seal(t, newIdentity(t), public, "hello")
	for name, change := range map[string]func(*packet.Packet){
		"from":          func(p *packet.Packet) { p.From = wire.ACEID(strings.Repeat("3", 64)) },
		"to":            func(p *packet.Packet) { p.To = wire.ACEID(strings.Repeat("3", 64)) },
		"messageId":     func(p *packet.Packet) { p.MessageID = suite.NewMessageID() },
		"timestamp":     func(p *packet.Packet) { p.Timestamp++ },
		"prekey":        func(p *packet.Packet) { p.Prekey = strings.Repeat("0", 64) },
		"kemCiphertext": func(p *packet.Packet) { p.KEMCiphertext = flip(p.KEMCiphertext) },
		"payload":       func(p *packet.Packet) { p.Payload = flip(p.Payload) },
		"short payload": func(p *packet.Packet) { p.Payload = p.Payload[:28] },
	} {
		changed := *p
		change(&changed)
		_, err := changed.Open(private)
		wantCode(t, name, err, fault.DecryptionFailed)
	}
	_, another := newPrekey(t)
	_, err := p.Open(another)
	wantCode(t, "another prekey", err, fault.DecryptionFailed)
	another.Destroy()
	_, err = p.Open(another)
	wantCode(t, "destroyed key", err, fault.DecryptionFailed)
}

func TestCheckWindow(t *testing.T) {
	for _, c := range []struct {
		timestamp int64
		code      fault.Code
	}{
		{now - 604801, fault.StaleTimestamp},
		{now - 604800, ""},
		{now, ""},
		{now + 300, ""},
		{now + 301, fault.StaleTimestamp},
	} {
		p := &packet.Packet{Timestamp: c.timestamp}
		wantCode(t, wire.Decimal(c.timestamp), p.CheckWindow(now), c.code)
		wantCode(t, wire.Decimal(c.timestamp), p.Envelope().CheckWindow(now), c.code)
	}
	for _, clock := range []int64{-1, wire.MaxInt + 1} {
		p := &packet.Packet{Timestamp: max(clock, 0)}
		wantCode(t, "broken clock", p.CheckWindow(clock), fault.InvalidArgument)
	}
}

// TestBytes spells out what is hashed and signed (03#encryption, 03#signature).
func TestBytes(t *testing.T) {
	header := packet.Header("from", "to", "id", 7, "key", []byte{0xff, 0})
	want := "0000000d" + hex.EncodeToString([]byte("ace.v1.packet")) +
		"00000004" + hex.EncodeToString([]byte("from")) +
		"00000002" + hex.EncodeToString([]byte("to")) +
		"00000002" + hex.EncodeToString([]byte("id")) +
		"00000001" + hex.EncodeToString([]byte("7")) +
		"00000003" + hex.EncodeToString([]byte("key")) +
		"00000002" + "ff00"
	if got := hex.EncodeToString(header); got != want {
		t.Errorf("header %s, want %s", got, want)
	}
	payload := packet.SignaturePayload("to", "id", "key", []byte{0xff}, []byte{1, 2, 3})
	want = "00000002" + hex.EncodeToString([]byte("to")) +
		"00000002" + hex.EncodeToString([]byte("id")) +
		"00000003" + hex.EncodeToString([]byte("key")) +
		"00000001" + "ff" +
		"00000003" + "010203"
	if got := hex.EncodeToString(payload); got != want {
		t.Errorf("signature payload %s, want %s", got, want)
	}
	a, b := wire.ACEID(strings.Repeat("1", 64)), wire.ACEID(strings.Repeat("2", 64))
	if packet.PairKey(a, b) != packet.PairKey(b, a) || packet.PairKey(a, b) != suite.Hex256([]byte(a+"\x00"+b)) {
		t.Error("pair key")
	}
}

// TestEncryptDeterministic opens what it made the ordinary way.
func TestEncryptDeterministic(t *testing.T) {
	public, private := newPrekey(t)
	eseed, nonce := make([]byte, 64), make([]byte, 12)
	from, id := wire.ACEID(strings.Repeat("1", 64)), suite.NewMessageID()
	e, err := packet.EncryptDeterministic(from, recipient, id, now, []byte("hello"), public, eseed, nonce)
	if err != nil {
		t.Fatal(err)
	}
	p := &packet.Packet{
		MessageID: id, From: from, To: recipient, Timestamp: now, Prekey: e.PrekeyID, KEMCiphertext: e.KEMCiphertext, Payload: e.Payload,
	}
	if got, err := p.Open(private); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := packet.EncryptDeterministic(from, recipient, id, now, nil, public, eseed[1:], nonce); err == nil {
		t.Error("short randomness was accepted")
	}
	if _, err := packet.EncryptDeterministic(from, recipient, id, now, nil, public, eseed, nonce[1:]); err == nil {
		t.Error("short nonce was accepted")
	}
}

func TestCodesAreFaults(t *testing.T) {
	_, err := packet.Decode([]byte("{"))
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("%T", err)
	}
	var syntax *wire.SyntaxError
	if !errors.As(err, &syntax) {
		t.Error("the position is lost")
	}
}
