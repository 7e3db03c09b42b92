package descriptor_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func fullFields() descriptor.Fields {
	f := fields()
	f.Relays = append(f.Relays, "https://other.example:8443/ace")
	f.Profiles = append(f.Profiles, descriptor.Profile{ID: "example:p:1", Digest: suite.Hex256(nil)})
	f.Ext = wire.NewObject(wire.M("example:p:1", wire.NewObject(wire.M("x", num(1)))))
	return f
}

func fullRecord() descriptor.CardRecord {
	r := record()
	r.Handle, r.Listed, r.Contact = "alice", true, descriptor.ContactClosed
	r.Card = descriptor.Card{Description: "translates", Image: "https://relay.example/a.png", Tags: []string{"hosted", "t-1"}}
	r.Pay = []string{"eip155:8453:0xAbC"}
	r.ERC8004 = []descriptor.ERC8004{{AgentRegistry: "eip155:1:0xAbC", AgentID: "7"}, {AgentRegistry: "solana:main:Reg", AgentID: "a7"}}
	return r
}

func TestBuildVerify(t *testing.T) {
	p := newPerson(t, now-100)
	built := build(t, p, fullFields(), now, -1)
	for name, o := range map[string]descriptor.Options{"plain": {}, "cached": {KELs: kel.NewCache(64)}, "pinned": {Pin: p.state}} {
		read, err := descriptor.Verify(built.Raw(), now, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(read.Raw(), built.Raw()) || read.ClaimsDigest() != built.ClaimsDigest() || read.KELEnd() != built.KELEnd() {
			t.Errorf("%s: read back as another document", name)
		}
		if read.State().Digest() != p.state.Digest() || read.KELEnd() != p.state.LastHash() {
			t.Errorf("%s: another kel", name)
		}
		f := fullFields()
		if read.IssuedAt != now || read.ExpiresAt != f.ExpiresAt || !reflect.DeepEqual(read.Relays, f.Relays) ||
			!reflect.DeepEqual(read.Profiles, f.Profiles) || !read.Ext.Equal(f.Ext) ||
			!bytes.Equal(read.Prekey, prekey) || read.PrekeyID != suite.Hex256(prekey) {
			t.Errorf("%s: fields changed: %+v", name, read)
		}
	}
}

func TestBuildVerifyCard(t *testing.T) {
	p := newPerson(t, now-100)
	for name, r := range map[string]descriptor.CardRecord{"least": record(), "full": fullRecord()} {
		built := buildCard(t, p, r, now, -1)
		read, err := descriptor.VerifyCard(built.Raw(), now, descriptor.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.ACEID, r.IssuedAt = p.state.ACEID(), now
		if !reflect.DeepEqual(read.CardRecord, r) {
			t.Errorf("%s: read as %+v, want %+v", name, read.CardRecord, r)
		}
		if !bytes.Equal(read.Raw(), built.Raw()) || read.ClaimsDigest() != built.ClaimsDigest() {
			t.Errorf("%s: read back as another document", name)
		}
	}
}

// TestSignedBytes spells out what the two documents sign (02#signing-actions).
func TestSignedBytes(t *testing.T) {
	p := newPerson(t, now-100)
	a := build(t, p, fullFields(), now, -1)
	claims := fmt.Sprintf(`{"aceId":%q,"expiresAt":1760144400,"ext":{"example:p:1":{"x":1}},"issuedAt":1760140800,`+
		`"prekey":{"id":%q,"publicKey":%q},`+
		`"profiles":[{"digest":%q,"id":"ace:text:1"},{"digest":%q,"id":"example:p:1"}],`+
		`"relays":["https://relay.example","https://other.example:8443/ace"]}`,
		p.state.ACEID(), suite.Hex256(prekey), wire.EncodeBase64(prekey), suite.Hex256([]byte("text")), suite.Hex256(nil))
	checkSigned(t, p, a.Signature, "agent-descriptor", claims, a.ClaimsDigest())

	b := buildCard(t, p, fullRecord(), now, -1)
	claims = fmt.Sprintf(`{"aceId":%q,"card":{"description":"translates","image":"https://relay.example/a.png","tags":["hosted","t-1"]},`+
		`"contact":"closed","erc8004":[{"agentId":"7","agentRegistry":"eip155:1:0xAbC"},{"agentId":"a7","agentRegistry":"solana:main:Reg"}],`+
		`"handle":"alice","home":"https://relay.example","issuedAt":1760140800,"listed":true,"pay":["eip155:8453:0xAbC"]}`, p.state.ACEID())
	checkSigned(t, p, b.Signature, "card-record", claims, b.ClaimsDigest())
}

func checkSigned(t *testing.T, p person, sig wire.Signature, context, claims, digest string) {
	t.Helper()
	if got := suite.Hex256([]byte(claims)); got != digest {
		t.Errorf("%s: ClaimsDigest is %s, want %s", context, digest, got)
	}
	key, err := suite.ParseVerifyKey(p.signing.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	message := wire.EncodePayload("ace.v1", p.state.ACEID(), "1760140800", "1", claims)
	if !key.Verify(message, sig.Value, context) {
		t.Errorf("%s: the signature is not over these bytes", context)
	}
}

// TestIssuedAt follows 04#verification: max(now, ts of the last event, the
// previous issuedAt + 1).
func TestIssuedAt(t *testing.T) {
	ahead := newPerson(t, now+9) // its dlg is at now+10
	level := newPerson(t, now-100)
	for _, tt := range []struct {
		p              person
		previous, want int64
	}{{level, -1, now}, {level, now - 1, now}, {level, now, now + 1}, {level, now + 20, now + 21}, {ahead, -1, now + 10}, {ahead, now + 10, now + 11}} {
		if got := build(t, tt.p, fields(), now, tt.previous).IssuedAt; got != tt.want {
			t.Errorf("descriptor after %d is issued at %d, want %d", tt.previous, got, tt.want)
		}
		if got := buildCard(t, tt.p, record(), now, tt.previous).IssuedAt; got != tt.want {
			t.Errorf("card after %d is issued at %d, want %d", tt.previous, got, tt.want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	p := newPerson(t, now-100)
	change := func(edit func(*descriptor.Fields)) descriptor.Fields {
		f := fields()
		edit(&f)
		return f
	}
	tests := []struct {
		name     string
		id       *kel.Identity
		f        descriptor.Fields
		now      int64
		previous int64
		want     fault.Code
	}{
		{"no relay", p.id(), change(func(f *descriptor.Fields) { f.Relays = nil }), now, -1, fault.InvalidArgument},
		{"loopback relay", p.id(), change(func(f *descriptor.Fields) { f.Relays = []string{"http://localhost:1"} }), now, -1, fault.InvalidArgument},
		{"short prekey", p.id(), change(func(f *descriptor.Fields) { f.Prekey = prekey[1:] }), now, -1, fault.InvalidArgument},
		{"expired", p.id(), change(func(f *descriptor.Fields) { f.ExpiresAt = now }), now, -1, fault.InvalidArgument},
		{"too long", p.id(), change(func(f *descriptor.Fields) { f.ExpiresAt = now + wire.MaxDescriptorLifetime + 1 }), now, -1, fault.InvalidArgument},
		{"core listed", p.id(), change(func(f *descriptor.Fields) {
			f.Profiles = []descriptor.Profile{{ID: profile.CoreID, Digest: suite.Hex256(nil)}}
		}), now, -1, fault.InvalidArgument},
		{"ext not listed", p.id(), change(func(f *descriptor.Fields) {
			f.Ext = wire.NewObject(wire.M("example:q:1", wire.NewObject()))
		}), now, -1, fault.InvalidArgument},
		{"no UTF-8", p.id(), change(func(f *descriptor.Fields) { f.Relays = []string{"https://relay.example/\xff"} }), now, -1, fault.InvalidArgument},
		{"clock", p.id(), fields(), -1, -1, fault.InvalidArgument},
		{"previous far ahead", p.id(), fields(), now, now + 300, fault.InvalidArgument},
		{"delegation over", p.dlg(t, now-50, now).id(), fields(), now, -1, fault.IdentityUnavailable},
		{"rotated", p.rot(t, now-50).id(), fields(), now, -1, fault.IdentityUnavailable},
		{"another's key", kel.NewIdentity(p.state, newKey()), fields(), now, -1, fault.IdentityUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := descriptor.Build(tt.id, tt.f, tt.now, tt.previous, descriptor.Options{})
			wantCode(t, err, tt.want)
		})
	}
}

func TestBuildCardRefuses(t *testing.T) {
	p := newPerson(t, now-100)
	tests := map[string]func(*descriptor.CardRecord){
		"home":               func(r *descriptor.CardRecord) { r.Home = "http://localhost:1" },
		"handle":             func(r *descriptor.CardRecord) { r.Handle = "Alice" },
		"handle and path":    func(r *descriptor.CardRecord) { r.Home, r.Handle = "https://relay.example/x", "alice" },
		"description":        func(r *descriptor.CardRecord) { r.Card.Description = strings.Repeat("é", 257) },
		"description no UTF": func(r *descriptor.CardRecord) { r.Card.Description = "\xff" },
		"image":              func(r *descriptor.CardRecord) { r.Card.Image = "http://relay.example/x" },
		"tag":                func(r *descriptor.CardRecord) { r.Card.Tags = []string{"A"} },
		"pay":                func(r *descriptor.CardRecord) { r.Pay = []string{"eip155:1"} },
		"erc8004":            func(r *descriptor.CardRecord) { r.ERC8004 = []descriptor.ERC8004{{"eip155:1:0x", "07"}} },
		"contact":            func(r *descriptor.CardRecord) { r.Contact = "" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := record()
			change(&r)
			_, err := descriptor.BuildCard(p.id(), r, now, -1, descriptor.Options{})
			wantCode(t, err, fault.InvalidArgument)
		})
	}
	_, err := descriptor.BuildCard(p.id(), record(), -1, -1, descriptor.Options{})
	wantCode(t, err, fault.InvalidArgument)
	_, err = descriptor.BuildCard(p.rot(t, now-50).id(), record(), now, -1, descriptor.Options{})
	wantCode(t, err, fault.IdentityUnavailable)
}

// TestCardRecordSize fills a record to MAX_CARD_RECORD_BYTES, which takes a home
// of long characters, and a byte beyond (04#card-record).
func TestCardRecordSize(t *testing.T) {
	p := newPerson(t, now-100)
	r := fullRecord()
	r.Handle = "" // the home has a path
	r.Home = "https://r.example/" + strings.Repeat("😀", 2030)
	r.Card.Image = "https://r.example/" + strings.Repeat("i", 2030)
	r.Card.Description = strings.Repeat("d", 8)
	size := func(b *descriptor.CardBundle) int {
		card, _ := b.Value().Get("card")
		return len(card.Canonical())
	}
	for range 7 {
		r.Pay = append(r.Pay, "eip155:1:"+wire.Decimal(int64(len(r.Pay)))+strings.Repeat("0", 118))
	}
	room := wire.MaxCardRecordBytes - size(buildCard(t, p, r, now, -1))
	if room < 0 || room > 480 { // what a description can take
		t.Fatalf("room for %d bytes", room)
	}
	r.Card.Description += strings.Repeat("é", room/2) + strings.Repeat("d", room%2)
	if got := size(buildCard(t, p, r, now, -1)); got != wire.MaxCardRecordBytes {
		t.Fatalf("%d bytes", got)
	}
	r.Card.Description += "d"
	_, err := descriptor.BuildCard(p.id(), r, now, -1, descriptor.Options{})
	wantCode(t, err, fault.InvalidArgument)
}

// TestAgentIDs goes through the two grammars of an agentId at their bounds
// (04#card-record).
func TestAgentIDs(t *testing.T) {
	p := newPerson(t, now-100)
	digits := strings.Repeat("9", 78)
	letters := strings.Repeat("Az09", 32)
	for _, tt := range []struct {
		registry, id string
		ok           bool
	}{
		{"eip155:1:0xAbC", "0", true},
		{"eip155:1:0xAbC", digits, true},
		{"eip155:1:0xAbC", digits + "9", false},
		{"eip155:1:0xAbC", "", false},
		{"eip155:1:0xAbC", "00", false},
		{"eip155:1:0xAbC", "7a", false},
		{"eip155:1:0xAbC", "-7", false},
		{"solana:main:Reg", "0", true},
		{"solana:main:Reg", "007", true},
		{"solana:main:Reg", letters, true},
		{"solana:main:Reg", letters + "A", false},
		{"solana:main:Reg", "", false},
		{"solana:main:Reg", "a-7", false},
		{"solana:main:Reg", "é", false},
	} {
		r := record()
		r.ERC8004 = []descriptor.ERC8004{{AgentRegistry: tt.registry, AgentID: tt.id}}
		if _, err := descriptor.BuildCard(p.id(), r, now, -1, descriptor.Options{}); (err == nil) != tt.ok {
			t.Errorf("agentId %q of %s: %v", tt.id, tt.registry, err)
		}
	}
}
