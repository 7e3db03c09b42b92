package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// fixedPacket is a packet of the right form whose every part is known.
func fixedPacket() []byte {
	p := packet.Packet{
		MessageID: "01234567-89ab-4def-8123-456789abcdef",
		From:      wire.ACEID(strings.Repeat("aa", 32)), To: wire.ACEID(strings.Repeat("bb", 32)), Timestamp: 1760140800,
		Prekey: strings.Repeat("cc", 32), KEMCiphertext: make([]byte, suite.KEMCiphertextBytes), Payload: make([]byte, 2028),
		Signature: wire.Signature{Seq: 3, Value: make([]byte, suite.SignatureBytes)},
	}
	return p.Raw()
}

// compare compares what a command prints with a file of testdata.
func (s *stage) compare(golden, got string) {
	s.t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", "inspect", golden))
	if err != nil {
		s.t.Fatal(err)
	}
	if got != strings.TrimSpace(string(want)) {
		s.t.Errorf("%s:\n%s\nwant:\n%s", golden, got, want)
	}
}

// What a relay reads of a packet and what it reveals, and what it cannot read
// (06#security-considerations: "A relay sees metadata: from, to, messageId,
// timestamp, prekey ID (…), sizes, timing, IP addresses, (…) permits presented to
// it (…). It cannot read private content").
func TestInspectPacket(t *testing.T) {
	s := newStage(t)
	file := s.write("packet.json", string(fixedPacket()))
	s.compare("packet.txt", s.must("inspect", file, "--as-relay", "--utc"))
	s.compare("packet.json", s.must("inspect", file, "--as-relay", "--json"))
	for _, args := range [][]string{{file}, {"11111111-no-such-file", "--as-relay"}, {"11111111-1111-4111-8111-111111111111", "--as-relay", "--recipient", file}} {
		if r := s.try(append([]string{"inspect"}, args...)...); r.status != exitUsage {
			t.Errorf("%v: status %d: %s", args, r.status, r.err)
		}
	}
	if r := s.try("inspect", file, "--as-relay", "--recipient", file); r.status != exitNotAuthentic {
		t.Errorf("a packet for a descriptor: status %d: %s", r.status, r.err)
	}
}

// Of a message of the Outbox the answer is what its latest attempt has sent, as
// far as that is kept.
func TestInspectSent(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	content := `{"body":{"message":"hello"},"schemaDigest":"` + strings.Repeat("0", 64) + `","type":"ace:text:1"}`
	entry := store.OutboxEntry{
		MessageID: "01234567-89ab-4def-8123-456789abcdef", Peer: wire.ACEID(strings.Repeat("bb", 32)), Content: []byte(content), Type: "ace:text:1",
		State: store.Pending, CreatedAt: 1760140800, NextAttemptAt: 4000000000,
	}
	s.inStore("default", func(tx *store.Tx) error { return tx.AddOutbox(entry) })
	id := s.must("identity", "show", "--jq", ".ace_id")
	sent := func(options ...string) string {
		t.Helper()
		return strings.ReplaceAll(s.must(append([]string{"inspect", "01234567", "--as-relay"}, options...)...), id, "ACE_ID")
	}
	s.compare("unsent.txt", sent())
	entry.Attempts, entry.FirstAttemptAt, entry.Relay = 1, 3999999999, "https://relay.example"
	entry.Prekey, entry.PrekeyIsPeer = strings.Repeat("cc", 32), true
	s.inStore("default", func(tx *store.Tx) error { return tx.SaveOutbox(entry) })
	s.compare("first.txt", sent())
	s.compare("first.json", sent("--json"))
	entry.Attempts, entry.PrekeyIsPeer = 2, false
	s.inStore("default", func(tx *store.Tx) error { return tx.SaveOutbox(entry) })
	s.compare("retry.txt", sent())
	if r := s.try("inspect", "fedcba98", "--as-relay"); r.status != exitPermanent || !strings.Contains(r.err, "hint: ace outbox list") {
		t.Errorf("an unknown one: status %d: %s", r.status, r.err)
	}
}

// A relay that has the recipient's descriptor tells the published prekey from
// others (06#security-considerations).
func TestInspectTellsTheKindOfAPrekey(t *testing.T) {
	s := newStage(t)
	now := fmt.Sprint(time.Now().Unix())
	dir := func(name string) string { return filepath.Join(s.dir, name) }
	for _, name := range []string{"a", "b"} {
		s.must("interop", "gen-identity", dir(name), "--now", now)
	}
	s.must("interop", "create-packet", dir("a"), "--to-agent", filepath.Join(dir("b"), "agent.json"), "--kind", "text", "--message", "hi", "--out", dir("p.json"), "--now", now)
	kind := func(recipient string) string {
		t.Helper()
		return s.must("inspect", dir("p.json"), "--as-relay", "--recipient", recipient, "--jq", ".prekey_kind")
	}
	if got := kind(filepath.Join(dir("b"), "agent.json")); got != prekeyPublished {
		t.Errorf("kind %q", got)
	}
	text, err := os.ReadFile(dir("p.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := packet.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	s.write("p.json", strings.Replace(string(text), p.Prekey, strings.Repeat("0", 64), 1))
	if got := kind(filepath.Join(dir("b"), "agent.json")); got != prekeyPeer {
		t.Errorf("kind of another prekey %q", got)
	}
	if r := s.try("inspect", dir("p.json"), "--as-relay", "--recipient", filepath.Join(dir("a"), "agent.json")); r.status != exitUsage {
		t.Errorf("the sender's descriptor: status %d: %s", r.status, r.err)
	}
}
