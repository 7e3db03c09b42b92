package descriptor_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// subject is one of the two kinds of document, so that the steps they share are
// tested for both.
type subject struct {
	name   string // of the signed member
	value  func(t *testing.T, p person) wire.Value
	verify func(v wire.Value, now int64, o descriptor.Options) error
}

func subjects() []subject {
	return []subject{
		{
			"descriptor",
			func(t *testing.T, p person) wire.Value { return build(t, p, fields(), now, -1).Value() },
			func(v wire.Value, now int64, o descriptor.Options) error {
				_, err := descriptor.VerifyValue(v, now, o)
				return err
			},
		},
		{
			"card",
			func(t *testing.T, p person) wire.Value { return buildCard(t, p, record(), now, -1).Value() },
			func(v wire.Value, now int64, o descriptor.Options) error {
				_, err := descriptor.VerifyCardValue(v, now, o)
				return err
			},
		},
	}
}

// TestVerifyOrder breaks a document at each step, and at two steps at once: the
// earlier one is told (04#verification, 04#card-record).
func TestVerifyOrder(t *testing.T) {
	p := newPerson(t, now-100)
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) { testOrder(t, s, p) })
	}
}

func testOrder(t *testing.T, s subject, p person) {
	good := s.value(t, p)
	other := newPerson(t, now-100).state.Value()
	superseded := p.dlg(t, now-50, 0).state.Value()
	unusable := p.rot(t, now-50).state.Value()
	badKEL := wire.NewArray(p.state.Value().Items()[1])
	badSig := edit(good, num(now-1), s.name, "issuedAt")
	seqAhead := edit(good, num(7), s.name, "signature", "seq")

	events := append([]wire.Value(nil), p.state.Value().Items()...)
	events[0] = edit(events[0], str(wire.EncodeBase64(make([]byte, wire.SignatureBytes))), "sig", "value")
	forgedKEL := wire.NewArray(events...)

	tests := []struct {
		name string
		v    wire.Value
		now  int64
		want fault.Code
	}{
		{"good", good, now, ""},
		{"clock", good, -1, fault.InvalidArgument},
		{"clock before shape", wire.Value{}, wire.MaxInt + 1, fault.InvalidArgument},

		{"not an object", wire.NewArray(), now, fault.InvalidAuthorization},
		{"unknown member", good.With("x", num(1)), now, fault.InvalidAuthorization},
		{"unknown inner member", edit(good, num(1), s.name, "x"), now, fault.InvalidAuthorization},
		{"inner not an object", good.With(s.name, wire.NewArray()), now, fault.InvalidAuthorization},
		{"missing kel", cut(good, "kel"), now, fault.InvalidAuthorization},
		{"signature scheme", edit(good, str("ml-dsa-87"), s.name, "signature", "scheme"), now, fault.InvalidAuthorization},
		{"issued ahead", good, now - 301, fault.InvalidAuthorization},
		{"issued ahead at the bound", good, now - 300, ""},
		{"shape before kel", edit(good.With("kel", badKEL), num(1), s.name, "x"), now, fault.InvalidAuthorization},
		{"time before kel", good.With("kel", badKEL), now - 301, fault.InvalidAuthorization},
		{"shape before delegation", edit(good.With("kel", superseded), str("x"), s.name, "aceId"), now, fault.InvalidAuthorization},

		{"kel no list", good.With("kel", wire.Value{}), now, fault.InvalidKEL},
		{"kel structure", good.With("kel", badKEL), now, fault.InvalidKEL},
		{"kel forged", good.With("kel", forgedKEL), now, fault.InvalidSignature},
		{"kel not usable", good.With("kel", unusable), now, fault.InvalidKEL},
		{"kel of another", good.With("kel", other), now, fault.InvalidAuthorization},
		{"kel structure before aceId", edit(good.With("kel", badKEL), str(wire.ACEID(strings.Repeat("0", 64))), s.name, "aceId"), now, fault.InvalidKEL},
		{"usable before aceId", edit(good.With("kel", unusable), str(wire.ACEID(strings.Repeat("0", 64))), s.name, "aceId"), now, fault.InvalidKEL},
		{"aceId before seq", seqAhead.With("kel", other), now, fault.InvalidAuthorization},

		{"seq ahead", seqAhead, now, fault.StalePeerBinding},
		{"superseded", good.With("kel", superseded), now, fault.StalePeerBinding},
		{"signature", badSig, now, fault.InvalidAuthorization},
		{"seq before signature", edit(seqAhead, num(now-1), s.name, "issuedAt"), now, fault.StalePeerBinding},
		{"life before signature", edit(good, num(now-100), s.name, "issuedAt"), now, fault.StalePeerBinding},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, s.verify(tt.v, tt.now, descriptor.Options{}), tt.want)
		})
	}
}

// TestVerifyPinned judges a document under the state after reconciliation
// (01#pinning).
func TestVerifyPinned(t *testing.T) {
	p := newPerson(t, now-100)
	second := p.dlg(t, now-50, 0)
	rotated := p.rot(t, now-50)
	thief := p.dlg(t, now-60, 0)
	recovered := thief.recovery(t, now-50).dlg(t, now-40, 0)
	tests := []struct {
		name        string
		signer, pin person
		want        fault.Code
	}{
		{"the pin itself", p, p, ""},
		{"extends the pin", second, p, ""},
		{"recovers the pin", recovered, thief, ""},
		{"prefix with a superseded delegation", p, second, fault.StalePeerBinding},
		{"prefix of a pin that ends in a rotation", p, rotated, fault.StalePeerBinding},
		{"fork", thief, second, fault.KELConflict},
		{"fork of a recovered pin", thief, recovered, fault.KELConflict},
		{"pin of another", p, newPerson(t, now-100), fault.KELConflict},
	}
	for _, s := range subjects() {
		for _, tt := range tests {
			t.Run(s.name+" "+tt.name, func(t *testing.T) {
				err := s.verify(s.value(t, tt.signer), now, descriptor.Options{Pin: tt.pin.state})
				wantCode(t, err, tt.want)
			})
		}
		// A document's own order: the kel, then the pin, then the signature.
		v := s.value(t, thief)
		wantCode(t, s.verify(edit(v, num(9), s.name, "signature", "seq"), now, descriptor.Options{Pin: second.state}), fault.KELConflict)
		wantCode(t, s.verify(v.With("kel", wire.NewArray()), now, descriptor.Options{Pin: second.state}), fault.InvalidKEL)
	}
}

// TestPrefixSignedByCurrent: the kel may be cut short as long as the signature
// is by the pin's delegation.
func TestPrefixSignedByCurrent(t *testing.T) {
	p := newPerson(t, now-100)
	second := p.dlg(t, now-50, 0)
	v := build(t, second, fields(), now, -1).Value().With("kel", p.state.Value())
	a, err := descriptor.VerifyValue(v, now, descriptor.Options{Pin: second.state})
	if err != nil {
		t.Fatal(err)
	}
	if a.State().Seq() != p.state.Seq() || a.KELEnd() != p.state.LastHash() {
		t.Error("State is not that of the kel carried")
	}
	_, err = descriptor.VerifyValue(v, now, descriptor.Options{})
	wantCode(t, err, fault.StalePeerBinding)
}

func TestVerifyBounds(t *testing.T) {
	p := newPerson(t, now-100)
	good := build(t, p, fields(), now, -1)
	pad := func(n int) []byte {
		return append(good.Raw()[:len(good.Raw()):len(good.Raw())], bytes.Repeat([]byte(" "), n)...)
	}
	if _, err := descriptor.Verify(pad(1000), now, descriptor.Options{}); err != nil {
		t.Errorf("blanks: %v", err)
	}
	_, err := descriptor.Verify(pad(2*wire.MaxPublishedAgentBytes), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = descriptor.Verify([]byte(`{"kel":[],"kel":[]}`), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = descriptor.VerifyCard([]byte(`{`), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = descriptor.Verify([]byte(`{`), -1, descriptor.Options{})
	wantCode(t, err, fault.InvalidArgument)
	_, err = descriptor.VerifyCard([]byte(`{`), -1, descriptor.Options{})
	wantCode(t, err, fault.InvalidArgument)

	// The size is shape, so it comes before the kel.
	withKEL := func(bytes int) wire.Value { return good.Value().With("kel", str(strings.Repeat("x", bytes))) }
	room := wire.MaxPublishedAgentBytes - len(withKEL(0).Canonical())
	_, err = descriptor.VerifyValue(withKEL(room), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidKEL)
	_, err = descriptor.VerifyValue(withKEL(room+1), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	// So is the depth, wherever it is.
	deep := num(0)
	for range wire.MaxJSONDepth + 1 { // the kel is at depth 1
		deep = wire.NewArray(deep)
	}
	_, err = descriptor.VerifyValue(good.Value().With("kel", deep), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
}

// TestExpiry: a descriptor expires, a card record never does.
func TestExpiry(t *testing.T) {
	p := newPerson(t, now-100)
	a, b := build(t, p, fields(), now, -1), buildCard(t, p, record(), now, -1)
	_, err := descriptor.Verify(a.Raw(), a.ExpiresAt-1, descriptor.Options{})
	wantCode(t, err, "")
	_, err = descriptor.Verify(a.Raw(), a.ExpiresAt, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = descriptor.VerifyCard(b.Raw(), now+10*wire.MaxDescriptorLifetime, descriptor.Options{})
	wantCode(t, err, "")
}

// TestDevelopment: an http relay on a loopback host is for development alone
// (02#relay-urls).
func TestDevelopment(t *testing.T) {
	p := newPerson(t, now-100)
	dev := descriptor.Options{URLs: wire.Development}
	f, r := fields(), record()
	f.Relays, r.Home, r.Handle = []string{"http://127.0.0.1:8080"}, "http://[::1]:8080", "alice"
	a, err := descriptor.Build(p.id(), f, now, -1, dev)
	if err != nil {
		t.Fatal(err)
	}
	b, err := descriptor.BuildCard(p.id(), r, now, -1, dev)
	if err != nil {
		t.Fatal(err)
	}
	_, err = descriptor.Verify(a.Raw(), now, dev)
	wantCode(t, err, "")
	_, err = descriptor.VerifyCard(b.Raw(), now, dev)
	wantCode(t, err, "")
	_, err = descriptor.Verify(a.Raw(), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = descriptor.VerifyCard(b.Raw(), now, descriptor.Options{})
	wantCode(t, err, fault.InvalidAuthorization)
	if _, err := descriptor.DecodeStored(a.Raw()); err != nil {
		t.Error(err)
	}
}

func TestDecodeStored(t *testing.T) {
	p := newPerson(t, now-100)
	a, b := build(t, p, fullFields(), now, -1), buildCard(t, p, fullRecord(), now, -1)
	sa, err := descriptor.DecodeStored(a.Raw())
	if err != nil {
		t.Fatal(err)
	}
	sb, err := descriptor.DecodeStoredCard(b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if sa.State() != nil || sb.State() != nil {
		t.Error("a stored document has a state nobody verified")
	}
	if sa.KELEnd() != p.state.LastHash() || sb.KELEnd() != p.state.LastHash() {
		t.Error("KELEnd is not the hash of the last event")
	}
	if sa.ClaimsDigest() != a.ClaimsDigest() || !bytes.Equal(sa.Raw(), a.Raw()) || sa.PrekeyID != a.PrekeyID ||
		sb.ClaimsDigest() != b.ClaimsDigest() || !bytes.Equal(sb.Raw(), b.Raw()) || sb.Handle != b.Handle {
		t.Error("read back as another document")
	}
	for name, raw := range map[string][]byte{
		"no JSON":   []byte("x"),
		"no shape":  cut(a.Value(), "descriptor", "prekey").Canonical(),
		"no kel":    a.Value().With("kel", wire.NewArray()).Canonical(),
		"bad event": a.Value().With("kel", wire.NewArray(num(1))).Canonical(),
		"a card":    b.Raw(),
	} {
		_, err := descriptor.DecodeStored(raw)
		if fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: error %v, want storage_failed", name, err)
		}
	}
	for name, raw := range map[string][]byte{"no JSON": []byte("x"), "no kel": b.Value().With("kel", wire.NewArray()).Canonical(), "an agent": a.Raw()} {
		_, err := descriptor.DecodeStoredCard(raw)
		if fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: error %v, want storage_failed", name, err)
		}
	}
}

// TestCachedKEL: a log from the cache is judged at this clock reading.
func TestCachedKEL(t *testing.T) {
	p := newPerson(t, now-200).dlg(t, now-100, now+10)
	f := fields()
	a := build(t, p, f, now, -1)
	o := descriptor.Options{KELs: kel.NewCache(64)}
	for range 2 {
		if _, err := descriptor.Verify(a.Raw(), now+9, o); err != nil {
			t.Fatal(err)
		}
	}
	_, err := descriptor.Verify(a.Raw(), now+10, o)
	wantCode(t, err, fault.InvalidKEL)
}
