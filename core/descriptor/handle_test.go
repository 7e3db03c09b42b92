package descriptor_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Production addresses are in the logic vectors; these are of development.
func TestParseHandleAddress(t *testing.T) {
	tests := []struct {
		text       string
		policy     wire.URLPolicy
		home, form string
	}{
		{"@alice@127.0.0.1:8080", wire.Development, "http://127.0.0.1:8080", "@alice@127.0.0.1:8080"},
		{"alice@LOCALHOST", wire.Development, "http://localhost", "@alice@localhost"},
		{"alice@localhost:80", wire.Development, "http://localhost", "@alice@localhost"},
		{"alice@localhost:443", wire.Development, "http://localhost:443", "@alice@localhost:443"},
		{"@alice@[::1]:8080", wire.Development, "http://[::1]:8080", "@alice@[::1]:8080"},
		{"alice@relay.example:8443", wire.Development, "https://relay.example:8443", "@alice@relay.example:8443"},
		{"alice@localhost:8080", wire.Production, "https://localhost:8080", "@alice@localhost:8080"},
		{"alice@[::1]", wire.Production, "", ""},
		{"alice@[::2]", wire.Development, "", ""},
		{"alice@localhost/", wire.Development, "", ""},
		{"alice@localhost:0", wire.Development, "", ""},
		{"alice@\xff", wire.Development, "", ""},
	}
	for _, tt := range tests {
		a, err := descriptor.ParseHandleAddress(tt.text, tt.policy)
		if tt.home == "" {
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("%q: error %v, want invalid_argument", tt.text, err)
			}
			continue
		}
		if err != nil || a.Home != tt.home || a.String() != tt.form {
			t.Errorf("%q is %q at %q (%v), want %q at %q", tt.text, a, a.Home, err, tt.form, tt.home)
		}
	}
}

func TestCheckResolved(t *testing.T) {
	p := newPerson(t, now-100)
	other := newPerson(t, now-100).state.ACEID()
	r := record()
	r.Handle = "alice"
	b := buildCard(t, p, r, now, -1)
	bare := buildCard(t, p, record(), now, -1)
	at := func(name, home string) descriptor.HandleAddress {
		return descriptor.HandleAddress{Name: name, Host: "relay.example", Home: home}
	}
	const home = "https://relay.example"
	tests := []struct {
		name                   string
		a                      descriptor.HandleAddress
		b                      *descriptor.CardBundle
		pinnedID, pinnedHandle string
		want                   fault.Code
	}{
		{"first time", at("alice", home), b, "", "", ""},
		{"again", at("alice", home), b, p.state.ACEID(), "alice", ""},
		{"another home", at("alice", home+":8443"), b, "", "", fault.UnknownPeer},
		{"another handle", at("bob", home), b, "", "", fault.UnknownPeer},
		{"no handle", at("alice", home), bare, "", "", fault.UnknownPeer},
		{"another identity", at("alice", home), b, other, "", fault.InvalidAuthorization},
		{"handle changed", at("alice", home), b, "", "bob", fault.InvalidAuthorization},
		{"handle dropped", at("alice", home), bare, "", "alice", fault.InvalidAuthorization},
		{"another home and identity", at("alice", home+":8443"), b, other, "", fault.UnknownPeer},
		{"another handle and identity", at("bob", home), b, other, "", fault.UnknownPeer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, tt.a.CheckResolved(tt.b, tt.pinnedID, tt.pinnedHandle), tt.want)
		})
	}
	wantCode(t, b.CheckPinnedHandle(""), "")
	wantCode(t, b.CheckPinnedHandle("alice"), "")
	wantCode(t, bare.CheckPinnedHandle("alice"), fault.InvalidAuthorization)
}
