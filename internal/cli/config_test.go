package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a full file": {`
default_identity = "ops"
relay = "https://relay.example"
timeout = "5s"
time = "unix"
color = "auto"
utc = true
[passphrase]
source = "command"
command = ["pass", "show", "ace"]
timeout = "5s"
[accept]
"ace:text:1" = { digest = "4861" }
[policy]
approval_ttl = "24h"
rules = [{ type = "ace:text:1", peer = "bob", do = "allow" }, { direction = "in", do = "deny" }]
[identities.ops]
relay = "https://other.example"
passphrase = { source = "file", file = "/x" }
[[identities.ops.policy.rules]]
direction = "out"
type = "rfq"
do = "ask"
`, ""},
		"unknown key":                  {`relai = "x"`, `did you mean "relay"`},
		"unknown key, deeper":          {"[identities.ops]\nrelais = \"x\"", `unknown key "identities.ops.relais"`},
		"unknown table":                {"[tui]\nmouse = false", `unknown key "tui"`},
		"wrong type":                   {"utc = 1", "config.toml"},
		"no TOML":                      {"relay", "config.toml"},
		"a source of none":             {"[passphrase]\nsource = \"keyring\"", "passphrase: source"},
		"a file without its path":      {"[passphrase]\nsource = \"file\"", "without file"},
		"two sources":                  {"[passphrase]\nsource = \"none\"\nfile = \"x\"", "with a file"},
		"negative timeout":             {`timeout = "-5s"`, "negative"},
		"a key of a rule":              {"[[policy.rules]]\ntpye = \"ace:text:1\"\ndo = \"deny\"", `unknown key "policy.rules.tpye"`},
		"its nearest":                  {"[[policy.rules]]\ntpye = \"ace:text:1\"\ndo = \"deny\"", `did you mean "type"`},
		"a key of one identity's rule": {"[[identities.ops.policy.rules]]\npere = \"bob\"\ndo = \"deny\"", `did you mean "peer"`},
		"a key of a policy":            {"[policy]\nrule = []", `did you mean "rules"`},
		"an action":                    {"[[policy.rules]]\ndo = \"allow\"\n[[policy.rules]]\ndo = \"dney\"", `config.toml: policy.rules, rule 2: do "dney"`},
		"its nearest action":           {"[[policy.rules]]\ndo = \"dney\"", `did you mean "deny"`},
		"no action":                    {"[[policy.rules]]\npeer = \"bob\"", `rule 1: do "": a rule does allow, ask or deny`},
		"asking about what has come":   {"[[identities.ops.policy.rules]]\ndirection = \"in\"\ndo = \"ask\"", `config.toml: identities.ops.policy.rules, rule 1: do "ask"`},
		"a direction":                  {"[[policy.rules]]\ndirection = \"inn\"\ndo = \"deny\"", `did you mean "in"`},
		"no time for an approval":      {"[policy]\napproval_ttl = \"0s\"", "policy.approval_ttl is less than a second"},
		"a time that is none":          {"[policy]\napproval_ttl = \"soon\"", "config.toml"},
		"no passphrase in it":          {"[passphrase]\nvalue = \"secret\"", "unknown key"},
	} {
		s := newStage(t)
		r := s.try("version", "--config", s.write("config.toml", c.text))
		switch {
		case c.want == "" && r.status != exitOK:
			t.Errorf("%s: status %d: %s", name, r.status, r.err)
		case c.want != "" && (r.status != exitUsage || !strings.Contains(r.err, c.want)):
			t.Errorf("%s: status %d: %s", name, r.status, r.err)
		}
	}
}

// TestPrecedence: an option wins over its variable, that over the file of
// --config, that over the file in the configuration folder.
func TestPrecedence(t *testing.T) {
	s := newStage(t)
	now := `--jq`
	at := func(args ...string) string { return s.must(append(args, "explain", "expired", now, ".exit")...) }
	if got := at(); got != "15" {
		t.Fatal(got)
	}
	for _, name := range []string{"ops", "home", "work", "lab"} {
		s.must("init", "--yes", "--no-publish", "--name", name)
	}
	who := func(args ...string) string { return s.must(append(args, "identity", "show", "--jq", ".name")...) }
	if err := os.MkdirAll(filepath.Join(s.dir, ".config", "ace"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(".config/ace/config.toml", `default_identity = "ops"`)
	file := s.write("mine.toml", `default_identity = "home"`)
	if got := who(); got != "ops" {
		t.Errorf("the configuration folder gives %s", got)
	}
	if got := who("--config", file); got != "home" {
		t.Errorf("--config gives %s", got)
	}
	s.env["ACE_AS"] = "work"
	if got := who("--config", file); got != "work" {
		t.Errorf("the variable gives %s", got)
	}
	if got := who("--config", file, "--as", "lab"); got != "lab" {
		t.Errorf("the option gives %s", got)
	}
}

// TestConfigKeys keeps the list for suggestions complete.
func TestConfigKeys(t *testing.T) {
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[duration]() {
			return
		}
		for i := range of.NumField() {
			key := of.Field(i).Tag.Get("toml")
			if key != "" && !slices.Contains(configKeys(), key) {
				t.Errorf("configKeys lacks %s", key)
			}
			if key != "" {
				walk(of.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[config]())
}

// TestConfigLayers shows that a more specific file wins key by key, and that of
// two sources of a passphrase one wins whole.
func TestConfigLayers(t *testing.T) {
	s := newStage(t)
	var c config
	for _, text := range []string{`
relay = "https://one.example"
utc = true
[passphrase]
source = "file"
file = "/one"
[accept]
"a:b:1" = { digest = "1" }
[policy]
approval_ttl = "1h"
rules = [{ do = "deny" }]
[identities.ops]
relay = "https://ops.example"
policy = { rules = [] }
[identities.home]
passphrase = { source = "file", file = "/home" }
`, `
utc = false
[passphrase]
source = "command"
command = ["two"]
[accept]
"c:d:1" = { digest = "2" }
[identities.ops]
passphrase = { source = "none" }
[identities.home]
passphrase = { source = "prompt" }
policy = { approval_ttl = "2h" }
[[policy.rules]]
do = "ask"
`, `relay = "https://three.example"`} {
		if err := c.read(s.write("layer.toml", text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Policy.override(c.Identities["ops"].Policy); got.ApprovalTTL.Duration != time.Hour || got.Rules == nil || len(got.Rules) != 0 {
		t.Errorf("the policy of ops is %+v", got)
	}
	if got := c.Policy.override(c.Identities["home"].Policy); got.ApprovalTTL.Duration != 2*time.Hour || len(got.Rules) != 1 || got.Rules[0].Do != "ask" || !strings.HasSuffix(got.origin, "layer.toml: policy.rules") {
		t.Errorf("the policy of home is %+v", got)
	}
	c.Policy = policyConfig{}
	for name, identity := range c.Identities {
		identity.Policy = policyConfig{}
		c.Identities[name] = identity
	}
	want := config{
		Relay:      "https://three.example",
		Passphrase: passphraseSource{Source: "command", Command: []string{"two"}},
		Accept:     map[string]acceptRule{"a:b:1": {"1"}, "c:d:1": {"2"}},
		Identities: map[string]identityConfig{
			"ops":  {Relay: "https://ops.example", Passphrase: passphraseSource{Source: "none"}},
			"home": {Passphrase: passphraseSource{Source: "prompt"}},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}
