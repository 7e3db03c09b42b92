package profile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1_760_140_800

var (
	subject = wire.ACEID(strings.Repeat("a", 64))
	issuer  = wire.ACEID(strings.Repeat("b", 64))
	value   = wire.EncodeBase64(make([]byte, wire.SignatureBytes))
)

// credential returns the text of a credential of good shape, whose signature
// nobody made.
func credential(issuer, subject string, issuedAt, expiresAt int64) string {
	return fmt.Sprintf(`{"issuer":%q,"subject":%q,"issuedAt":%d,"expiresAt":%d,"signature":{"scheme":"ml-dsa-65","seq":1,"value":%q}}`,
		issuer, subject, issuedAt, expiresAt, value)
}

func TestCheckExt(t *testing.T) {
	delegation := func(credentials ...string) string {
		return `{"ace:delegation:1":{"credentials":[` + strings.Join(credentials, ",") + `]}}`
	}
	commerce := func(entries string) string { return `{"ace:commerce:1":{"settlement":[` + entries + `]}}` }
	third := func(n int) string { return `{"example:p:1":{"x":"` + strings.Repeat("x", n) + `"}}` }
	good := credential(issuer, subject, now, now+60)
	coin := `{"method":"stablecoin","asset":"eip155:8453/erc20:0xA0b8"}`

	tests := []struct{ name, ext, want string }{
		{"empty", `{}`, ""},
		{"third party", `{"example:p:1":{"anything":[null,1.5]}}`, ""},
		{"greatest", third(wire.MaxExtBytes - len(third(0))), ""},
		{"delegation", delegation(good), ""},
		{"delegation expired", delegation(credential(issuer, subject, now-600, now-60)), ""},
		{"delegation longest", delegation(credential(issuer, subject, now+300, now+300+604800)), ""},
		{"commerce", commerce(coin + `,{"method":"stripe-link"}`), ""},
		{"undefined ace: profile", `{"ace:other:1":{}}`, ""},

		{"no object", `[]`, "ext: is an array"},
		{"not listed", `{"example:q:1":{}}`, "not listed"},
		{"value no object", `{"example:p:1":[]}`, `ext["example:p:1"]`},
		{"one byte over", third(wire.MaxExtBytes - len(third(0)) + 1), "32769 bytes"},
		{"text defines none", `{"ace:text:1":{}}`, "ace:text:1 defines no ext"},
		{"core defines none", `{"ace:core:1":{}}`, "ace:core:1 defines no ext"},

		{"delegation not closed", `{"ace:delegation:1":{"credentials":[` + good + `],"x":1}}`, "unknown member"},
		{"delegation none", delegation(), "0 elements"},
		{"delegation five", delegation(good, good, good, good, good), "5 elements"},
		{"delegation issuer twice", delegation(good, credential(issuer, subject, now-1, now+1)), "credentials[1].issuer"},
		{"delegation of another", delegation(credential(subject, issuer, now, now+60)), "credentials[0].subject"},
		{"delegation of oneself", delegation(credential(subject, subject, now, now+60)), "is the issuer"},
		{"delegation ahead", delegation(credential(issuer, subject, now+301, now+400)), "issuedAt"},
		{"delegation over at once", delegation(credential(issuer, subject, now, now)), "expiresAt"},
		{"delegation too long", delegation(credential(issuer, subject, now, now+604801)), "expiresAt"},
		{"delegation unsigned", delegation(strings.Replace(good, `"signature"`, `"sig"`, 1)), "signature: missing"},
		{"delegation signature open", delegation(strings.Replace(good, `"seq":1`, `"seq":1,"x":1`, 1)), "unknown member"},

		{"commerce none", commerce(""), "0 elements"},
		{"commerce eleven", commerce(strings.TrimSuffix(strings.Repeat(coin+",", 11), ",")), "11 elements"},
		{"commerce twice", commerce(coin + `,{"asset":"eip155:8453/erc20:0xA0b8","method":"stablecoin"}`), "settlement[1]: is there twice"},
		{"commerce method", commerce(`{"method":"cash"}`), "no settlement method"},
		{"commerce asset", commerce(`{"method":"stablecoin","asset":"eip155:8453"}`), "CAIP-19"},
		{"commerce no asset", commerce(`{"method":"stablecoin"}`), "asset: missing"},
		{"commerce recipient", commerce(`{"method":"stripe-link","url":"https://a.example"}`), "unknown member"},
		{"commerce not closed", `{"ace:commerce:1":{"settlement":[` + coin + `],"x":1}}`, "unknown member"},
	}
	enabled := []string{"example:p:1", profile.CoreID, profile.TextID, profile.DelegationID, profile.CommerceID, "ace:other:1"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ext, err := wire.Parse([]byte(tt.ext), wire.MaxJSONDepth)
			if err != nil {
				t.Fatal(err)
			}
			err = profile.CheckExt(ext, enabled, subject, now)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one naming %q", err, tt.want)
			}
		})
	}
}
