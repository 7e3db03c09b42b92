package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/admission"
)

// withoutJSON lists the commands whose answer is no JSON document.
var withoutJSON = []string{"ace completion", "ace demo", "ace gen", "ace help", "ace listen unit", "ace man", "ace relay unit"}

// TestJSONContract runs every command with --json against a real relay and
// holds what it prints against the schema that ace --json-schema prints.
func TestJSONContract(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	seen := map[string]bool{}
	check := func(command, out string) {
		t.Helper()
		seen[command] = true
		validateLines(t, s, command, out)
	}
	do := func(args ...string) string {
		t.Helper()
		out := s.must(append(args, "--json")...)
		check(commandOf(t, args), out)
		return out
	}

	check("ace relay serve", s.relay())
	do("init", "--yes", "--name", "alice", "--relay", "dev", "--profiles", "text,commerce")
	do("init", "--yes", "--name", "alice", "--if-missing")
	do("init", "--yes", "--name", "bob", "--relay", "dev", "--handle", "bob", "--contact", "open", "--profiles", "text,commerce")
	bob := s.must("--as", "bob", "identity", "show", "--jq", ".ace_id")
	alice := s.must("--as", "alice", "identity", "show", "--jq", ".ace_id")
	do("identity", "show", "bob")
	do("identity", "list")
	do("--as", "alice", "status")
	do("--as", "alice", "status", "--offline")
	do("--as", "alice", "doctor")
	do("--as", "bob", "publish")
	do("--as", "alice", "lookup", bob, bob)

	do("--as", "alice", "connect", bob, "--note", "hi")
	do("--as", "bob", "pull")
	do("--as", "bob", "contact", "requests")
	do("--as", "bob", "contact", "reject", alice)
	s.must("--as", "alice", "pull")
	s.must("--as", "alice", "connect", bob)
	s.must("--as", "bob", "pull")
	do("--as", "bob", "contact", "accept", alice, "--name", "ally")
	s.must("--as", "alice", "pull")
	do("--as", "alice", "contact", "list")
	s.wait(do, bob)

	do("--as", "alice", "send", bob, "hello")
	do("--as", "bob", "listen", "--once")
	do("--as", "bob", "inbox")
	do("--as", "bob", "inbox", "list")
	message := s.must("--as", "bob", "inbox", "--jq", ".[0].message_id")
	do("--as", "bob", "read", message)
	for _, command := range []string{"false", "true"} {
		r := s.try("--as", "bob", "listen", "--once", "--json", "--exec", "--", command)
		check("ace listen", r.out)
	}
	do("--as", "bob", "unack", message)
	s.try("--as", "bob", "listen", "--once", "--exec", "--", "false")
	do("--as", "bob", "inbox", "list", "--unhandled")
	do("--as", "bob", "ack", message)
	do("--as", "bob", "ack", "--all")
	do("--as", "bob", "unack", message)
	do("--as", "bob", "trace", message)
	do("--as", "alice", "trace", message)
	do("--as", "alice", "audit")
	s.must("--as", "alice", "pull")
	do("--as", "alice", "outbox", "list")
	do("--as", "alice", "outbox", "show", message)
	do("--as", "alice", "wait", "receipt", message)
	do("--as", "bob", "wait", "message")
	do("--as", "alice", "inspect", message, "--as-relay")
	do("--as", "alice", "outbox", "retry", message)
	do("--as", "alice", "outbox", "abandon", message)
	do("--as", "alice", "send", bob, "--type", "rfq", "--thread", "t", "--set", "need=x")
	s.must("--as", "bob", "pull")
	do("--as", "bob", "thread", "list")
	do("--as", "bob", "thread", "show", "t")
	do("--as", "bob", "delegation", "issue", alice)
	s.say(do, bob)
	do("--as", "alice", "delegation", "verify", s.write("credential.json", s.must("--as", "bob", "delegation", "issue", alice)))
	s.quarantine("alice", `{"a":1}`)
	do("--as", "alice", "quarantine", "list")
	do("--as", "alice", "quarantine", "show", "1")
	do("--as", "alice", "quarantine", "drop", "1", "--yes")
	s.decide(do, bob)

	do("--as", "alice", "contact", "show", bob)
	do("--as", "alice", "contact", "name", bob, "bob")
	do("--as", "alice", "outbox", "prune")
	do("--as", "alice", "wake", "set", "http://127.0.0.1:9", "--token-file", s.write("token", strings.Repeat("A", 22)))
	do("--as", "alice", "wake", "clear")

	s.admit(do, alice, bob)
	s.renew(do)

	do("profile", "list")
	do("profile", "show", "commerce")
	do("--as", "alice", "profile", "install", "delegation")
	do("--as", "alice", "profile", "remove", "delegation", "--yes")
	do("profile", "new", "example:note:1")
	do("profile", "digest", s.write("manifest.json", manifest))
	do("explain")
	do("explain", "kel_conflict")
	do("version")
	do("relay", "check-config", "--public-url", "https://relay.example", "--print")
	s.inspect(do, alice)
	s.keep(do, alice)
	s.operate(do, alice)

	for command, answers := range leaves(t) {
		if slices.Contains(withoutJSON, command) != (len(answers) == 0) {
			t.Errorf("%s: has %d types of answer", command, len(answers))
		}
		if len(answers) > 0 && !seen[command] {
			t.Errorf("%s was not run", command)
		}
	}
}

const manifest = `{"id":"example:note:1","messages":[{"type":"example:note:1","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}]}`

// renew runs the commands that replace keys, once for each form of answer.
func (s *stage) renew(do func(...string) string) {
	s.t.Helper()
	next := func(n string) string { return filepath.Join(s.dir, ".config/ace-recovery/bob"+n+".next-root") }
	do("--as", "bob", "identity", "log", "--verify")
	do("--as", "bob", "identity", "delegate", "--dry-run")
	do("--as", "bob", "identity", "delegate")
	do("--as", "bob", "identity", "rotate", "--yes")
	do("identity", "recover", "--rehearse", "--next-root", next("-2"))
	do("identity", "recover", "--yes", "--next-root", next("-2"))
}

// admit runs the commands about who may write to whom.
func (s *stage) admit(do func(...string) string, alice, bob string) {
	s.t.Helper()
	invitation := filepath.Join(s.dir, "invitation")
	do("--as", "alice", "permit", "list")
	do("--as", "alice", "permit", "renew", bob)
	do("--as", "alice", "why", bob)
	do("--as", "alice", "maintain")
	do("--as", "bob", "contact", "block", alice, "--dry-run")
	do("--as", "bob", "contact", "block", alice, "--yes")
	do("--as", "bob", "contact", "unblock", alice)
	do("--as", "bob", "contact", "invite", alice, "-o", invitation)
	do("--as", "alice", "contact", "import", invitation)
	do("--as", "bob", "contact", "forget", alice, "--dry-run")
	do("--as", "bob", "contact", "forget", alice, "--yes")
	do("--as", "bob", "why", alice, "--offline")
}

// inspect runs the commands that look into objects.
func (s *stage) inspect(do func(...string) string, alice string) {
	s.t.Helper()
	a, b := filepath.Join(s.dir, "driver-a"), filepath.Join(s.dir, "driver-b")
	now := fmt.Sprint(time.Now().Unix())
	packet := filepath.Join(s.dir, "packet.json")
	s.must("interop", "gen-identity", a, "--handle", "alice", "--now", now)
	s.must("interop", "gen-identity", b, "--now", now)
	s.must("interop", "create-packet", a, "--to-agent", filepath.Join(b, "agent.json"), "--kind", "text", "--message", "hi", "--out", packet, "--now", now)
	do("packet", "verify", packet, "--sender", filepath.Join(a, "card.json"))
	do("inspect", packet, "--as-relay", "--recipient", filepath.Join(b, "agent.json"))
	do("kel", "verify", filepath.Join(a, "agent.json"))
	do("descriptor", "verify", filepath.Join(a, "agent.json"))
	do("descriptor", "verify", filepath.Join(a, "card.json"))
	do("permit", "verify", s.permit(alice), "--issuer", filepath.Join(s.dir, ".local/share/ace/identities/alice/kel.json"))
}

// operate runs the operator's commands on the relay of the stage, and ends it.
func (s *stage) operate(do func(...string) string, alice string) {
	s.t.Helper()
	s.env["ACE_RELAY_DATA"] = filepath.Join(s.dir, "relay")
	backup := filepath.Join(s.dir, "one.backup")
	do("relay", "status")
	do("relay", "id", "list")
	do("relay", "id", "show", alice)
	do("relay", "id", "suspend", alice)
	do("relay", "id", "resume", alice)
	do("relay", "quota", "set", alice, "--entries", "5", "--bytes", "1000000")
	do("relay", "quota", "show", alice)
	do("relay", "handle", "reserve", "admin")
	do("relay", "handle", "list")
	do("relay", "handle", "release", "admin")
	do("relay", "backup", "-o", backup)
	do("relay", "verify")
	do("relay", "gc")
	do("relay", "id", "purge", alice, "--yes", "--confirm", alice)
	url := s.must("relay", "status", "--jq", ".public_url")
	do("relay", "bench", "send", "--url", url, "--count", "4", "--warmup", "0s", "--clients", "1", "--recipients", "1")
	do("relay", "bench", "listen", "--url", url, "--duration", "100ms", "--streams", "1")
	do("relay", "drain")
	do("relay", "restore", backup, "--data", filepath.Join(s.dir, "restored"))
}

// permit writes a permit of alice's for bob to a file.
func (s *stage) permit(alice string) string {
	s.t.Helper()
	app := &app{io: s.io(""), flags: flags{as: "alice"}}
	id, err := app.identity()
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().Unix()
	unlocked, err := id.store.Unlock(nil, now)
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlocked.Destroy()
	subject := s.must("--as", "bob", "identity", "show", "--jq", ".ace_id")
	p, err := admission.IssuePermit(unlocked.Identity, subject, now, 3600)
	if err != nil {
		s.t.Fatal(err)
	}
	if p.Issuer != alice {
		s.t.Fatalf("permit of %s", p.Issuer)
	}
	return s.write("permit.json", string(p.Raw()))
}

func (s *stage) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// commandOf returns the path of the command that the arguments name.
func commandOf(t *testing.T, args []string) string {
	t.Helper()
	root := (&app{io: newStage(t).io("")}).root(nil)
	c, _, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	return c.CommandPath()
}

// validateLines holds each line of an answer against the schema of a command.
func validateLines(t *testing.T, s *stage, command, out string) {
	t.Helper()
	var schema map[string]any
	text := s.must(append(strings.Fields(command)[1:], "--json-schema")...)
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	if out == "" {
		t.Errorf("%s printed nothing", command)
	}
	for line := range strings.Lines(out) {
		var doc any
		if err := json.Unmarshal([]byte(line), &doc); err != nil {
			t.Fatalf("%s: %v: %s", command, err, line)
		}
		if why := mismatch(schema, doc, "answer"); why != "" {
			t.Errorf("%s: %s: %s", command, why, line)
		}
	}
}

// mismatch tells where a document breaks a schema, "" for nowhere. It knows
// what schemas of this program use, and refuses members that a schema does not
// name: the contract lets a later version add some, not this one.
func mismatch(schema map[string]any, doc any, at string) string {
	if some, ok := schema["anyOf"].([]any); ok {
		why := ""
		for _, one := range some {
			if why = mismatch(one.(map[string]any), doc, at); why == "" {
				return ""
			}
		}
		return at + " is none of the events, not even the last: " + why
	}
	if why := mismatchType(schema["type"], doc, at); why != "" || doc == nil {
		return why
	}
	switch v := doc.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			if why := mismatch(items, item, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case map[string]any:
		if schema["type"] != nil {
			return mismatchMembers(schema, v, at)
		}
	}
	return ""
}

func mismatchType(want, doc any, at string) string {
	if want == nil {
		return ""
	}
	kinds, ok := want.([]any)
	if !ok {
		kinds = []any{want}
	}
	got := "null"
	switch v := doc.(type) {
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	case float64:
		if got = "number"; v == float64(int64(v)) {
			got = "integer"
		}
	}
	whole := got == "integer" && slices.Contains(kinds, any("number")) // every integer is a number
	if !whole && !slices.Contains(kinds, any(got)) {
		return fmt.Sprintf("%s is %s, not %v", at, got, want)
	}
	return ""
}

func mismatchMembers(schema map[string]any, doc map[string]any, at string) string {
	properties := schema["properties"].(map[string]any)
	for _, name := range schema["required"].([]any) {
		if _, ok := doc[name.(string)]; !ok {
			return fmt.Sprintf("%s lacks %s", at, name)
		}
	}
	for name, value := range doc {
		member, ok := properties[name].(map[string]any)
		if !ok {
			return fmt.Sprintf("%s has %s, which the schema does not name", at, name)
		}
		if why := mismatch(member, value, at+"."+name); why != "" {
			return why
		}
	}
	return ""
}

// quantities lists the members that are integers and no times.
var quantities = []string{"number", "removed", "output_bytes",
	"seq", "kel_seq", "revision", "pruned", "signature_seq", "in_s", "retry_after_s", "backlog", "generation", "identities", "quarantined", "strangers",
	"messages", "outgoing",
	"entries", "bytes", "entries_most", "bytes_most", "stored_bytes", "size", "seed", "delay_ms",
	"count", "accepted", "accepted_per_second", "accepted_bytes", "events", "events_missing", "duration_ms", "opening_ms",
	"p50_us", "p90_us", "p99_us", "p999_us", "max_us",
	"relay_bytes_per_stream", "relay_cpu_ms", "relay_cpu_us_per_send", "relay_fsyncs", "bench_cpu_us_per_send",
}

// TestMemberNames pins the rules of the contract about names: times end in _at
// and are integers, and what peers write freely stands below untrusted.
func TestMemberNames(t *testing.T) {
	free := []string{"body", "note", "description", "image", "tags", "pay"}
	var walk func(command string, of reflect.Type, untrusted bool)
	walk = func(command string, of reflect.Type, untrusted bool) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of != rawType {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for _, m := range membersOf(of) {
			base := m.of
			if base.Kind() == reflect.Pointer {
				base = base.Elem()
			}
			isTime := base.Kind() == reflect.Int64 && !slices.Contains(quantities, m.name)
			if strings.HasSuffix(m.name, "_at") != isTime && m.name != "at" && m.name != "since" {
				t.Errorf("%s: member %s is %s", command, m.name, base)
			}
			own := command == "ace outbox show" && m.name == "body"
			ownCard := m.name == "card" && m.of == reflect.TypeFor[cardUntrusted]()
			if slices.Contains(free, m.name) && !untrusted && !own {
				t.Errorf("%s: member %s is not below untrusted", command, m.name)
			}
			walk(command, m.of, untrusted || ownCard || m.name == "untrusted")
		}
	}
	for command, answers := range leaves(t) {
		for _, v := range answers {
			walk(command, reflect.TypeOf(v), false)
		}
	}
}

// say runs the commands about what identities say of themselves.
func (s *stage) say(do func(...string) string, bob string) {
	s.t.Helper()
	credential := s.write("handed.json", s.must("--as", "bob", "delegation", "issue", s.must("--as", "alice", "identity", "show", "--jq", ".ace_id")))
	s.must("--as", "alice", "profile", "install", "delegation")
	do("--as", "alice", "delegation", "publish", credential)
	do("--as", "alice", "delegation", "list")
	do("--as", "alice", "card", "set", "--description", "x", "--tag", "a,b", "--pay", "eip155:1:0xab", "--erc8004", "eip155:1:0xab=7", "--listed", "--settlement", "stripe-link")
	do("--as", "alice", "card", "show")
	do("--as", "alice", "card", "show", bob)
	do("--as", "alice", "card", "set", "--clear", "tag", "--no-publish")
	do("--as", "alice", "card", "diff")
	do("--as", "alice", "card", "registration", bob, s.write("registration.json", `{}`))
	do("--as", "bob", "find")
	do("--as", "bob", "find", "--all")
	do("--as", "alice", "delegation", "withdraw", bob)
	s.must("--as", "alice", "profile", "remove", "delegation", "--yes")
}

// decide runs the commands about what the policy keeps back.
func (s *stage) decide(do func(...string) string, bob string) {
	s.t.Helper()
	s.env["ACE_CONFIG"] = s.write("policy.toml", `
[identities.alice.policy]
rules = [{ do = "ask" }]
[identities.bob.policy]
rules = [{ direction = "in", do = "deny" }]
`)
	defer delete(s.env, "ACE_CONFIG")
	held := func() string { return s.must("--as", "alice", "send", bob, "held", "--jq", ".message_id") }
	do("--as", "alice", "send", bob, "held")
	do("--as", "alice", "outbox", "deny", held())
	do("--as", "alice", "outbox", "approve", held())
	s.must("--as", "bob", "pull")
	do("--as", "bob", "quarantine", "list")
	number := s.must("--as", "bob", "quarantine", "list", "--jq", ".[0].number")
	do("--as", "bob", "quarantine", "show", number)
	do("--as", "bob", "quarantine", "release", number)
}
