package interop

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/wire"
)

const driverNow = 1760140800

// driverPair is two identities of the driver, alice and bob, in folders that
// were there before.
type driverPair struct {
	t          *testing.T
	alice, bob string
	work       string
}

func newDriverPair(t *testing.T) *driverPair {
	t.Helper()
	d := &driverPair{t: t, work: t.TempDir()}
	d.alice, d.bob = d.identity("alice", "--handle", "alice-a"), d.identity("bob")
	return d
}

func (d *driverPair) identity(name string, options ...string) string {
	d.t.Helper()
	dir := filepath.Join(d.work, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.run(driverNow, append([]string{"gen-identity", dir}, options...)...)
	return dir
}

// run runs the driver, which has to succeed, and returns what it printed.
func (d *driverPair) run(now int64, args ...string) string {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(slices.Clone(args), "--now", wire.Decimal(now))
	if status := Main(args, strings.NewReader(""), &stdout, &stderr); status != 0 {
		d.t.Fatalf("%v: status %d: %s", args, status, stderr.String())
	}
	return stdout.String()
}

func (d *driverPair) read(path string) wire.Value {
	d.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	v, err := wire.Parse(data, maxEvalDepth)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// create has from make a packet to to, and returns its file.
func (d *driverPair) create(from, to, kind string, options ...string) string {
	d.t.Helper()
	out := filepath.Join(d.work, kind+"-"+filepath.Base(from)+".json")
	args := []string{"create-packet", from, "--to-agent", filepath.Join(to, agentFile), "--kind", kind, "--out", out}
	d.run(driverNow, append(args, options...)...)
	return out
}

// open has to open a packet of from, and returns the result.
func (d *driverPair) open(to, from, file string, now int64) wire.Value {
	d.t.Helper()
	out := file + ".result"
	d.run(now, "open-packet", to, "--from-agent", filepath.Join(from, agentFile), "--packet", file, "--out", out)
	return d.read(out)
}

func (d *driverPair) wantError(result wire.Value, code string) {
	d.t.Helper()
	if !result.Equal(facts(str("error", code))) {
		d.t.Errorf("result %s, want %s", result.Canonical(), code)
	}
}

const refID = "550e8400-e29b-41d4-a716-446655440000"

// TestDriverKinds makes and opens a packet of every kind.
func TestDriverKinds(t *testing.T) {
	d := newDriverPair(t)
	for kind, options := range map[string][]string{
		"text":                   {"--message", "héllo — 你好 🌍", "--thread-id", "t"},
		"receipt-delivered":      {"--ref-message-id", refID},
		"receipt-rejected":       {"--ref-message-id", refID, "--code", "invalid_body"},
		"receipt-unknown-prekey": {"--ref-message-id", refID, "--ref-prekey", strings.Repeat("a", 64)},
		"contact-request":        {"--note", "hi"},
		"contact-accepted":       {"--note", ""},
		"contact-rejected":       nil,
	} {
		file := d.create(d.alice, d.bob, kind, options...)
		got := d.open(d.bob, d.alice, file, driverNow)
		p, content := d.read(file), d.read(file+".content.json")
		want := facts(boolean("ok", true), wire.M("prekeyId", wire.NewString(prekeyIDOf(t, content))))
		for name, from := range map[string]wire.Value{
			"from": p, "messageId": p, "type": content, "schemaDigest": content, "threadId": content, "body": content,
		} {
			if v, ok := from.Get(name); ok {
				want = want.With(name, v)
			}
		}
		if !got.Equal(want) {
			t.Errorf("%s: %s, want %s", kind, got.Canonical(), want.Canonical())
		}
	}
}

func prekeyIDOf(t *testing.T, content wire.Value) string {
	t.Helper()
	v, _ := content.Get("prekey")
	s, _ := v.AsString()
	publicKey, err := wire.DecodeBase64(s)
	if err != nil {
		t.Fatal(err)
	}
	held, ok := prekey.Held{}.Record(prekey.Carried{PublicKey: publicKey, Pin: "pin"})
	if !ok {
		t.Fatal("no prekey")
	}
	return held.ID
}

// TestDriverPeerPrekeys: the key that a packet carries opens the answer, to its
// issuer and from its holder alone, until it has been replaced or has ended.
func TestDriverPeerPrekeys(t *testing.T) {
	d := newDriverPair(t)
	carol := d.identity("carol")
	offered := func(file string) string {
		v, _ := d.read(file + ".content.json").Get("prekey")
		s, _ := v.AsString()
		return s
	}
	first := offered(d.create(d.alice, d.bob, "text", "--message", "1"))
	if again := offered(d.create(d.alice, d.bob, "text", "--message", "2")); again != first {
		t.Error("a key that is not used yet was replaced")
	}
	reply := d.create(d.bob, d.alice, "text", "--message", "3", "--to-prekey", first)
	d.wantError(d.open(d.alice, d.bob, reply, driverNow+wire.OfflineWindowSeconds), "unknown_prekey")
	if ok, _ := d.open(d.alice, d.bob, reply, driverNow+1).Get("ok"); !ok.Equal(wire.NewBool(true)) {
		t.Error("the answer did not open")
	}
	if next := offered(d.create(d.alice, d.bob, "text", "--message", "6")); next == first {
		t.Error("a used key is offered again")
	}
	if ok, _ := d.open(d.alice, d.bob, reply, driverNow+2).Get("ok"); !ok.Equal(wire.NewBool(true)) {
		t.Error("the in-use key no longer opens")
	}
	foreign := d.create(carol, d.alice, "text", "--message", "7", "--to-prekey", first)
	d.wantError(d.open(d.alice, carol, foreign, driverNow), "unknown_prekey")
	lost := d.create(d.alice, d.bob, "text", "--message", "8", "--prekey-agent", filepath.Join(carol, agentFile))
	d.wantError(d.open(d.bob, d.alice, lost, driverNow), "unknown_prekey")
}

// TestDriverRejections: what the protocol rejects is a result, not a failure.
func TestDriverRejections(t *testing.T) {
	d := newDriverPair(t)
	file := d.create(d.alice, d.bob, "text", "--message", "hello")
	p := d.read(file)
	bobID, _ := d.read(filepath.Join(d.bob, cardFile)).Get("card")
	bob, _ := bobID.Get("aceId")
	for name, c := range map[string]struct {
		text string
		code string
	}{
		"version":       {string(p.With("ace", wire.NewString("2")).Canonical()), "unsupported_version"},
		"unknown":       {string(p.With("x", wire.NewInt(1)).Canonical()), "invalid_packet"},
		"no json":       {"{", "invalid_packet"},
		"another to":    {string(p.With("to", wire.NewString(wire.ACEID(strings.Repeat("0", 64)))).Canonical()), "wrong_recipient"},
		"another from":  {string(p.With("from", bob).With("to", bob).Canonical()), "invalid_packet"},
		"changed field": {string(p.With("timestamp", wire.NewInt(driverNow+1)).Canonical()), "invalid_signature"},
	} {
		changed := filepath.Join(d.work, "changed.json")
		if err := os.WriteFile(changed, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { d.wantError(d.open(d.bob, d.alice, changed, driverNow), c.code) })
	}
	d.wantError(d.open(d.bob, d.alice, file, driverNow+wire.OfflineWindowSeconds+1), "stale_timestamp")
	d.wantError(d.open(d.bob, d.bob, file, driverNow), "invalid_signature")
}

func TestDriverCards(t *testing.T) {
	d := newDriverPair(t)
	for dir, handle := range map[string]string{d.alice: "alice-a", d.bob: ""} {
		file := filepath.Join(dir, cardFile)
		printed := d.run(driverNow, "verify-card", file)
		bundle := d.read(file)
		card, _ := bundle.Get("card")
		aceID, _ := card.Get("aceId")
		want := facts(boolean("ok", true), wire.M("aceId", aceID), str("contact", "open"), boolean("listed", false))
		if handle != "" {
			want = want.With("handle", wire.NewString(handle))
		}
		if printed != string(want.Canonical())+"\n" {
			t.Errorf("printed %s, want %s", printed, want.Canonical())
		}
		if _, has := card.Get("handle"); has != (handle != "") {
			t.Errorf("handle member: %v", has)
		}
		tampered := filepath.Join(d.work, "tampered.json")
		if err := writeJSON(tampered, bundle.With("card", card.With("listed", wire.NewBool(true)))); err != nil {
			t.Fatal(err)
		}
		if printed := d.run(driverNow, "verify-card", tampered); printed != `{"error":"invalid_authorization"}`+"\n" {
			t.Errorf("tampered: printed %s", printed)
		}
	}
	text := filepath.Join(d.work, "text")
	if err := os.WriteFile(text, []byte("no json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if printed := d.run(driverNow, "verify-card", text); printed != `{"error":"invalid_authorization"}`+"\n" {
		t.Errorf("no json: printed %s", printed)
	}
}

func TestDriverSecretsAreTheOwners(t *testing.T) {
	d := newDriverPair(t)
	file := filepath.Join(d.alice, vaultFile)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	args := []string{"create-packet", d.alice, "--to-agent", filepath.Join(d.bob, agentFile), "--kind", "text", "--message", "x",
		"--out", filepath.Join(d.work, "out.json"), "--now", wire.Decimal(driverNow)}
	if status := Main(args, strings.NewReader(""), io.Discard, &stderr); status != 1 || !strings.Contains(stderr.String(), "chmod") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}

func TestDriverArguments(t *testing.T) {
	d := newDriverPair(t)
	agent := filepath.Join(d.bob, agentFile)
	out := filepath.Join(d.work, "out.json")
	for name, args := range map[string][]string{
		"no command":        {},
		"unknown command":   {"sign", d.alice, "--now", "1"},
		"no folder":         {"gen-identity", "--now", "1"},
		"two folders":       {"gen-identity", d.alice, d.bob, "--now", "1"},
		"no clock":          {"verify-card", agent},
		"clock not a time":  {"verify-card", agent, "--now", "-1"},
		"clock too large":   {"verify-card", agent, "--now", "9007199254740992"},
		"unknown option":    {"verify-card", agent, "--now", "1", "--pin", "x"},
		"option twice":      {"verify-card", agent, "--now", "1", "--now", "1"},
		"option alone":      {"verify-card", agent, "--now"},
		"no such file":      {"verify-card", out, "--now", "1"},
		"bad handle":        {"gen-identity", filepath.Join(d.work, "new"), "--handle", "A", "--now", "1"},
		"unknown kind":      {"create-packet", d.alice, "--to-agent", agent, "--kind", "x", "--out", out, "--now", wire.Decimal(driverNow)},
		"no message":        {"create-packet", d.alice, "--to-agent", agent, "--kind", "text", "--out", out, "--now", wire.Decimal(driverNow)},
		"bad message ID":    {"create-packet", d.alice, "--to-agent", agent, "--kind", "text", "--message", "x", "--message-id", "x", "--out", out, "--now", wire.Decimal(driverNow)},
		"recipient expired": {"create-packet", d.alice, "--to-agent", agent, "--kind", "text", "--message", "x", "--out", out, "--now", wire.Decimal(driverNow + 86400)},
		"no identity":       {"open-packet", d.work, "--from-agent", agent, "--packet", agent, "--out", out, "--now", wire.Decimal(driverNow)},
		"eval with options": {"eval", "--now", "1"},
	} {
		var stderr bytes.Buffer
		if status := Main(args, strings.NewReader(""), io.Discard, &stderr); status != 1 || stderr.Len() == 0 {
			t.Errorf("%s: status %d, %q", name, status, stderr.String())
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%s: wrote a file", name)
		}
	}
	if status := Main([]string{"help"}, strings.NewReader(""), io.Discard, io.Discard); status != 0 {
		t.Errorf("help: status %d", status)
	}
	// Options may come before the folder.
	d.run(driverNow, "verify-card", filepath.Join(d.bob, cardFile))
	first := []string{"verify-card", "--now", wire.Decimal(driverNow), filepath.Join(d.bob, cardFile)}
	if status := Main(first, strings.NewReader(""), io.Discard, io.Discard); status != 0 {
		t.Errorf("options first: status %d", status)
	}
}
