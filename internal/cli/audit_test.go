package cli

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/store"
)

// noted returns all that the audit log and the attempts of an identity hold, as
// text.
func (s *stage) noted(name string, pass []byte) string {
	s.t.Helper()
	app := &app{io: s.io(""), flags: flags{as: name}}
	id, err := app.identity()
	must(s.t, err)
	unlocked, err := id.store.Unlock(pass, time.Now().Unix())
	must(s.t, err)
	defer unlocked.Destroy()
	db, err := store.Open(context.Background(), id.storePath(), unlocked.Vault)
	must(s.t, err)
	defer db.Close()
	var text strings.Builder
	must(s.t, db.View(context.Background(), func(tx *store.Tx) error {
		rows, err := tx.Audits(store.AuditFilter{})
		fmt.Fprintf(&text, "%+v", rows)
		if err != nil {
			return err
		}
		entries, err := tx.OutboxEntries()
		for _, e := range entries {
			attempts, err := tx.Attempts(e.MessageID)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "%+v", attempts)
		}
		return err
	}))
	return text.String()
}

// seedsOf returns the seeds of an identity without a passphrase, each as raw
// bytes.
func (s *stage) seedsOf(name string) (seeds [][]byte) {
	s.t.Helper()
	dir := filepath.Join(s.dir, ".local/share/ace/identities", name)
	for _, file := range []string{"root.key", "agent.key"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		must(s.t, err)
		var key map[string]json.RawMessage
		must(s.t, json.Unmarshal(text, &key))
		var plain string
		must(s.t, json.Unmarshal(key["plain"], &plain))
		raw, err := base64.StdEncoding.DecodeString(plain)
		must(s.t, err)
		for len(raw) >= 32 {
			seeds, raw = append(seeds, raw[:32]), raw[32:]
		}
	}
	if len(seeds) < 3 {
		s.t.Fatalf("%d seeds: the test does not find them", len(seeds))
	}
	s.inStore(name, func(tx *store.Tx) error {
		kept, err := tx.Prekeys("")
		for _, k := range kept {
			seeds = append(seeds, k.Seed.Expose())
			k.Seed.Destroy()
		}
		return err
	})
	return seeds
}

// The log, what was noted beside the store and the attempts tell of everything
// that happens, and of nothing that somebody wrote or keeps secret.
func TestAuditHasNoContentAndNoSecrets(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.relay()
	const pass, wrong, fresh = "correct-horse", "battery-staple", "tr0ub4dor-and-3"
	passFile, wrongFile, freshFile := s.write("pass", pass+"\n"), s.write("wrong", wrong+"\n"), s.write("fresh", fresh+"\n")
	secrets := []string{pass, wrong, fresh, "note-of-a-request", "body-of-a-message", "body-of-another", "thread-of-theirs", "petname-of-bob", "need-of-a-trade", "words-of-a-card", "key-of-a-request"}

	s.must("init", "--yes", "--name", "alice", "--relay", "dev", "--passphrase-file", passFile, "--profiles", "text,commerce")
	s.must("init", "--yes", "--name", "bob", "--relay", "dev", "--handle", "bob", "--contact", "open", "--profiles", "text,commerce")
	bob := s.must("--as", "bob", "identity", "show", "--jq", ".ace_id")
	alice := s.must("--as", "alice", "identity", "show", "--jq", ".ace_id")
	s.env["ACE_PASSPHRASE_FILE"] = passFile
	as := func(name string, args ...string) string {
		t.Helper()
		return s.must(append([]string{"--as", name}, args...)...)
	}
	as("alice", "connect", bob, "--note", "note-of-a-request")
	as("bob", "pull")
	as("bob", "contact", "accept", alice)
	as("alice", "pull")
	as("alice", "contact", "name", bob, "petname-of-bob")
	as("bob", "card", "set", "--description", "words-of-a-card")
	as("alice", "send", bob, "body-of-a-message", "--thread", "thread-of-theirs", "--request-id", "key-of-a-request")
	as("bob", "pull")
	as("alice", "pull")
	as("alice", "send", bob, "--type", "rfq", "--thread", "thread-of-theirs", "--set", "need=need-of-a-trade")
	as("bob", "pull")
	s.quarantine("bob", `{"body-of-another":1}`)
	as("bob", "quarantine", "drop", "1", "--yes")
	if r := s.try("--as", "alice", "status", "--passphrase-file", wrongFile); r.status != exitNoIdentity {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	as("bob", "contact", "block", alice, "--yes")
	s.try("--as", "alice", "send", bob, "body-of-another")
	as("bob", "identity", "delegate")
	as("bob", "identity", "backup", "create", "-o", filepath.Join(s.dir, "bob.backup"), "--backup-passphrase-file", wrongFile)
	s.must("identity", "passphrase", "alice", "--new-passphrase-file", freshFile)

	var said strings.Builder
	for _, name := range []string{"alice", "bob"} {
		beside, err := os.ReadFile(filepath.Join(s.dir, ".local/share/ace/identities", name, "store.db-audit.jsonl"))
		must(t, err)
		said.Write(beside)
	}
	seeds := s.seedsOf("bob")
	s.env["ACE_PASSPHRASE_FILE"] = freshFile
	for _, name := range []string{"alice", "bob"} {
		as(name, "audit") // takes in what was noted beside the store
	}
	said.WriteString(s.noted("alice", []byte(fresh)) + s.noted("bob", nil))
	text := said.String()
	for _, event := range []string{"passphrase.refused", "passphrase.changed", "contact.request_held", "quarantine.dropped", "key.delegated", "backup.created", "not_permitted"} {
		if !strings.Contains(text, event) {
			t.Errorf("%s did not happen: the scenario is too poor", event)
		}
	}
	for _, seed := range seeds {
		secrets = append(secrets, string(seed), hex.EncodeToString(seed), base64.StdEncoding.EncodeToString(seed), base64.RawURLEncoding.EncodeToString(seed))
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%.20q is in the log", secret)
		}
	}
}
