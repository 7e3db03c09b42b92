package profile_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/profile"
)

// TestOfficialDigests compares the embedded files with the digests that
// 08#official-manifests prints.
func TestOfficialDigests(t *testing.T) {
	want := []struct {
		id, digest string
		messages   [][2]string
	}{
		{profile.CoreID, "66f46d4b8951b75f98abae24a72ceffa173c4e27748d09be78b8d6382ddc8222", [][2]string{
			{profile.ReceiptType, "a79fea8c61d30c484fdc9ba71fee310c612da84f84827fe2c4b2e99e5708d3e3"},
			{profile.ContactType, "29fc76bbaa5a437aa068f823b1f2b2466c89fed6b2ea4b9cfa7c31cc80df15e9"},
		}},
		{profile.TextID, "48619350eaea46b2d60f7ce71fe55867e00c8dd081796b408fb6a95692b8b307", [][2]string{
			{profile.TextType, "e91541145d670369cf651d062e6bb8a94ce2605d4a9f2261ceef1d8a29c2e7da"},
		}},
		{profile.DelegationID, "fc1653477df13c6c8be00d34ce4811d90365053c0afd2b858f90603eab474964", [][2]string{
			{"ace:delegation:1", "4beba7c7640936f14d9eb90843726f6a53afc75c6798cb02fa914c09af5b24b1"},
		}},
		{profile.CommerceID, "30583f0a1acd86ac5a217d706df1c27dc7caea5d4f2deed6112807679afab053", [][2]string{
			{"ace:commerce:rfq:1", "7b3fc71d8e538ff2f5ca0189d81feb237aa31e1f49787e951b90e9e17c1207d5"},
			{"ace:commerce:offer:1", "0fb206d333aa41734407402ce4e44157720c39a9ffc4325750ebfb8d0c7f8179"},
			{"ace:commerce:accept:1", "59e5e6fd0df886bab94d439f138cbaf1990c3af7cfe44484581c501d37e76c23"},
			{"ace:commerce:reject:1", "ad51a8ad82f9bdde6b2d7f709430836359b09be66b32cfe4d8352d8c84a8dff6"},
			{"ace:commerce:invoice:1", "4020571cb3dbbb4e104b13e5e37a54e1b426d989e101f5c3b3de49fc680739a5"},
			{"ace:commerce:payment:1", "33a1fde87d16bf5ad5d4387d73e0823ed14ccd15149f51bee938b54be8d95ff5"},
			{"ace:commerce:deliver:1", "ff1d8025af3f87eee33afb8d2d88452365c41c84b55bba13e96fbf94907b9fd2"},
			{"ace:commerce:confirm:1", "876f22d60311651917fb7aee630368b885b8378fa1d0ac9dd91b17a65d8800d7"},
		}},
	}
	got := profile.Official()
	if len(got) != len(want) {
		t.Fatalf("%d official manifests, want %d", len(got), len(want))
	}
	for i, w := range want {
		m := got[i]
		if m.ID != w.id || m.Digest != w.digest {
			t.Errorf("manifest %d is %s %s, want %s %s", i, m.ID, m.Digest, w.id, w.digest)
		}
		if len(m.Messages) != len(w.messages) {
			t.Fatalf("%s: %d messages, want %d", m.ID, len(m.Messages), len(w.messages))
		}
		for j, msg := range m.Messages {
			if msg.Type != w.messages[j][0] || msg.Digest != w.messages[j][1] {
				t.Errorf("message %d of %s is %s %s, want %v", j, m.ID, msg.Type, msg.Digest, w.messages[j])
			}
			if msg.Profile != m.ID {
				t.Errorf("%s: Profile is %q", msg.Type, msg.Profile)
			}
		}
	}
}
