package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

func parse(t *testing.T, text string) wire.Value {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSyntaxErrorsNameThePosition(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		rule   string
	}{
		{"", 0, "unexpected end of the text"},
		{" [1,]", 4, "no JSON value starts here"},
		{`{"a":1,"a":2}`, 0, `duplicate member "a"`},
		{`{"a" 1}`, 5, "expected ':'"},
		{`[1 2]`, 3, "expected ',' or ']'"},
		{`"\ud800"`, 7, "unpaired surrogate"},
		{"\"a\nb\"", 2, "control character in a string"},
		{"[\"a\xff\"]", 3, "invalid UTF-8"},
		{`[1e400]`, 1, "number overflows binary64"},
		{`1 x`, 2, "text after the value"},
		{`01`, 1, "text after the value"},
		{`-`, 1, "expected a digit"},
	} {
		_, err := wire.Parse([]byte(c.text), wire.MaxJSONDepth)
		var s *wire.SyntaxError
		if !errors.As(err, &s) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if s.Offset != c.offset || s.Rule != c.rule {
			t.Errorf("%q: at %d %q, want at %d %q", c.text, s.Offset, s.Rule, c.offset, c.rule)
		}
	}
}

// TestSurrogates walks the edges of the two ranges of surrogates.
func TestSurrogates(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud7ff"`:       "\ud7ff",
		`"\ue000"`:       "\ue000",
		`"\ud800\udc00"`: "\U00010000",
		`"\uDBFF\uDFFF"`: "\U0010ffff",
		`"\ud800"`:       "",
		`"\udbff"`:       "",
		`"\udc00"`:       "",
		`"\udfff"`:       "",
		`"\ud800\ud800"`: "",
		`"\ud800\ue000"`: "",
		`"\ud800\udbff"`: "",
		`"\udc00\ud800"`: "",
		`"\ud800x"`:      "",
		`"\ud800\n"`:     "",
	} {
		v, err := wire.Parse([]byte(text), 0)
		if got, _ := v.AsString(); (err == nil) != (want != "") || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestDepth(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	// n brackets put the innermost array at depth n-1.
	if _, err := wire.Parse([]byte(nest(33)), 32); err != nil {
		t.Errorf("depth 32: %v", err)
	}
	if _, err := wire.Parse([]byte(nest(34)), 32); err == nil {
		t.Error("depth 33 was accepted")
	}
	v, err := wire.Parse([]byte(nest(34)), 40)
	if err != nil {
		t.Fatal(err)
	}
	if !v.WithinDepth(33) || v.WithinDepth(32) {
		t.Error("WithinDepth disagrees with Parse")
	}
	if scalar := parse(t, `"x"`); !scalar.WithinDepth(0) {
		t.Error("a scalar has a depth")
	}
}

func TestClosedReader(t *testing.T) {
	const text = `{"id":"ace:sha256:` + zeros64 + `","n":1e3,"inner":{"b":true},"list":["x"],"data":"QQ=="}`
	read := func(text string) (string, error) {
		r := wire.NewReader(parse(t, text), "thing")
		id := r.ACEID("id")
		if n := r.Int("n"); n != 1000 && r.Err() == nil {
			t.Errorf("n = %d", n)
		}
		inner := r.Object("inner")
		inner.Bool("b")
		_ = inner.Close()
		r.Array("list", 1, 2)
		r.Base64("data", 1, 1)
		return id, r.Close()
	}
	if id, err := read(text); err != nil || !wire.IsACEID(id) {
		t.Fatalf("%q, %v", id, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"n":1e3`, `"n":1.5`, "thing.n: not a wire integer"},
		{`"n":1e3`, `"n":"1"`, "thing.n: not a wire integer"},
		{`"b":true`, `"b":true,"c":1`, `thing.inner: unknown member "c"`},
		{`"b":true`, `"b":null`, "thing.inner.b: is null, not a boolean"},
		{`{"b":true}`, `[]`, "thing.inner: is an array, not an object"},
		{`["x"]`, `[]`, "thing.list: 0 elements, outside [1, 2]"},
		{`"QQ=="`, `"QR=="`, "thing.data: not canonical base64"},
		{`"QQ=="`, `"QUE="`, "thing.data: 2 decoded bytes, outside [1, 1]"},
		{`"QQ=="`, `"QQ==","extra":0`, `thing: unknown member "extra"`},
		{`,"data":"QQ=="`, ``, "thing.data: missing"},
		{`:sha256:`, `:sha512:`, "thing.id: is no ACE ID"},
	} {
		_, err := read(strings.Replace(text, c.from, c.to, 1))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
}

const zeros64 = "0000000000000000000000000000000000000000000000000000000000000000"

// TestManyMembers: a closed object has at most 64 members, and an object with
// more is refused however its members are called.
func TestManyMembers(t *testing.T) {
	var members []wire.Member
	for i := range 70 {
		members = append(members, wire.M("k"+wire.Decimal(int64(i)), wire.NewInt(1)))
	}
	r := wire.NewReader(wire.NewObject(members...), "thing")
	for _, m := range members {
		r.Int(m.Key)
	}
	if r.Close() == nil {
		t.Error("70 members were accepted")
	}
}

func TestSignatureObject(t *testing.T) {
	sig := wire.Signature{Seq: 7, Value: make([]byte, wire.SignatureBytes)}
	good := wire.NewObject(wire.M("signature", sig.Object()))
	r := wire.NewReader(good, "o")
	if got := r.Signature("signature"); r.Close() != nil || got.Seq != 7 || len(got.Value) != wire.SignatureBytes {
		t.Fatalf("round trip: %v", r.Err())
	}
	for name, bad := range map[string]wire.Value{
		"scheme":  sig.Object().With("scheme", wire.NewString("ml-dsa-44")),
		"length":  sig.Object().With("value", wire.NewString("QQ==")),
		"seq":     sig.Object().With("seq", wire.NewInt(-1)),
		"unknown": sig.Object().With("x", wire.NewInt(1)),
	} {
		r := wire.NewReader(wire.NewObject(wire.M("signature", bad)), "o")
		r.Signature("signature")
		if r.Close() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestEncodePayload spells out the bytes of 02#signatures.
func TestEncodePayload(t *testing.T) {
	want := "\x00\x00\x00\x06ace.v1\x00\x00\x00\x00\x00\x00\x00\x02\xc3\xa9"
	if got := wire.EncodePayload("ace.v1", "", "é"); string(got) != want {
		t.Errorf("%q", got)
	}
	if got := wire.AppendField(wire.EncodePayload("ace.v1", ""), []byte("é")); string(got) != want {
		t.Errorf("AppendField: %q", got)
	}
	if got := wire.EncodePayload(); len(got) != 0 {
		t.Errorf("no fields: %q", got)
	}
}

func TestRelayURLPolicy(t *testing.T) {
	for _, c := range []struct {
		url                     string
		production, development bool
	}{
		{"https://relay.example", true, true},
		{"https://relay.example:8443/ace", true, true},
		{"http://127.0.0.1:8080", false, true},
		{"http://localhost", false, true},
		{"http://[::1]:9", false, true},
		{"http://127.0.0.2:8080", false, false},
		{"http://relay.example", false, false},
		{"https://relay.example/", false, false},
		{"https://[::1]", false, false},
		{"https://RELAY.example", false, false},
		{longURL("é", 2048), true, true}, // characters, not bytes
		{longURL("é", 2049), false, false},
	} {
		if got := wire.CheckRelayURL(c.url, wire.Production) == nil; got != c.production {
			t.Errorf("%s in production: %v", c.url, got)
		}
		if got := wire.CheckRelayURL(c.url, wire.Development) == nil; got != c.development {
			t.Errorf("%s in development: %v", c.url, got)
		}
	}
}

// TestNormalizeRefusesHosts has hosts that look like others (02#relay-urls
// step 3).
func TestNormalizeRefusesHosts(t *testing.T) {
	for _, host := range []string{"", "a]", "[a", "]", "[", "[]", "[[::1]]", "[::1", "::1", "[::1]a", "[::g]", "a b", "a_b", "é", "u@a", "[::1]]"} {
		if got, err := wire.NormalizeRelayURL("https://" + host + "/x"); err == nil {
			t.Errorf("%q was normalized to %q", host, got)
		}
	}
}

// longURL returns a URL of n characters, the path of which repeats one.
func longURL(character string, n int) string {
	const base = "https://r.example/"
	return base + strings.Repeat(character, n-len(base))
}

func TestRelayHost(t *testing.T) {
	for url, want := range map[string]string{
		"https://relay.example":       "relay.example",
		"https://relay.example:8443":  "relay.example",
		"http://[::1]:80/x":           "[::1]",
		"http://[::1]":                "[::1]",
		"https://relay.example/a:b/c": "relay.example",
	} {
		if got := wire.RelayHost(url); got != want {
			t.Errorf("%s: %q", url, got)
		}
	}
	if wire.RelayHasPath("https://relay.example") || !wire.RelayHasPath("https://relay.example/x") {
		t.Error("RelayHasPath")
	}
}

func TestCheckTime(t *testing.T) {
	for now, ok := range map[int64]bool{0: true, wire.MaxInt: true, -1: false, wire.MaxInt + 1: false} {
		if got := wire.CheckTime(now) == nil; got != ok {
			t.Errorf("%d: %v", now, got)
		}
	}
}

// FuzzParse: no text makes the parser panic, and an accepted one has a
// canonical form that reads back as the same value and is its own canonical
// form.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"b":[1,-0,1e3,1.5e-7,"\u00e9\ud83d\ude00"],"a":{"":null,"x":true}}`, `[[[]]]`, `"\u0000\n\""`, `1e400`, `{"a":1,"a":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		canonical := v.Canonical()
		again, err := wire.Parse(canonical, wire.MaxJSONDepth)
		if err != nil {
			t.Fatalf("canonical %q: %v", canonical, err)
		}
		if !again.Equal(v) || string(again.Canonical()) != string(canonical) {
			t.Fatalf("%q reads back as %q", canonical, again.Canonical())
		}
	})
}

// FuzzGrammars: no text makes a grammar panic, and normalizing a relay URL
// twice is the same as once.
func FuzzGrammars(f *testing.F) {
	for _, seed := range []string{"https://Relay.example:443/", "http://[::1]:80", "ace:text:1", "a-b-1", "1-2", "eip155:1:0x1", "QQ=="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, is := range []func(string) bool{wire.IsACEID, wire.IsMessageID, wire.IsNamespacedID, wire.IsThreadID, wire.IsHandle, wire.IsCAIP10, wire.IsCAIP19, wire.IsOutcomeCode, wire.IsHTTPSURL} {
			is(s)
		}
		if wire.IsStreamID(s) && wire.CompareStreamIDs(s, s) != 0 {
			t.Errorf("%q differs from itself", s)
		}
		if b, err := wire.DecodeBase64(s); err == nil && wire.EncodeBase64(b) != s {
			t.Errorf("%q is not canonical base64", s)
		}
		n, err := wire.NormalizeRelayURL(s)
		if err != nil {
			return
		}
		if again, err := wire.NormalizeRelayURL(n); err != nil || again != n {
			t.Errorf("%q normalizes to %q, then to %q (%v)", s, n, again, err)
		}
	})
}
