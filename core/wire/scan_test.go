package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

func TestScannerIntegers(t *testing.T) {
	for text, want := range map[string]int64{
		`0,`: 0, `1,`: 1, `1760140800,`: 1760140800, `9007199254740991,`: wire.MaxInt,
		`,`: -1, `1`: -1, `01,`: -1, `00,`: -1, `-0,`: -1, `-1,`: -1, `+1,`: -1, ` 1,`: -1, `1 ,`: -1, `1.0,`: -1, `1e3,`: -1, `1_0,`: -1,
		`9007199254740992,`: -1, `10000000000000000,`: -1, `"1",`: -1, strings.Repeat("1", 100) + ",": -1,
	} {
		s := wire.NewScanner([]byte(`{"n":` + text))
		got := s.Int(`{"n":`)
		rest, ok := s.Rest()
		if ok != (want >= 0) || ok && (got != want || string(rest) != ",") {
			t.Errorf("%s: %d, %t, then %q", text, got, ok, rest)
		}
	}
}

func TestScannerStrings(t *testing.T) {
	for text, want := range map[string]bool{
		`a"`: true, `"`: true, "~ !#[]^\x7e\"": true,
		`a`: false, `\"`: false, `a\u0061"`: false, "\t\"": false, "\x7f\"": false, "é\"": false, "\xff\"": false,
	} {
		s := wire.NewScanner([]byte(`{"s":"` + text))
		s.Plain(`{"s":"`)
		if rest, ok := s.Rest(); ok != want || ok && string(rest) != `"` {
			t.Errorf("%q: %t, then %q", text, ok, rest)
		}
	}
	digest := strings.Repeat("a", 64)
	s := wire.NewScanner([]byte(`"` + digest + `"`))
	if got := s.Text(`"`, wire.IsHexDigest); got != digest {
		t.Errorf("read %q", got)
	}
	s.Text(`"`, wire.IsHexDigest)
	if _, ok := s.Rest(); ok {
		t.Error("an empty digest was accepted")
	}
}

// TestScannerStops: after a failure nothing is read.
func TestScannerStops(t *testing.T) {
	s := wire.NewScanner([]byte(`{"a":1,"b":2,`))
	s.Skip(`{"b":`)
	if n := s.Int(`{"a":`); n != 0 {
		t.Errorf("read %d after a failure", n)
	}
	if v := s.Value(`{"a":`, ','); v != nil {
		t.Errorf("read %q after a failure", v)
	}
	if rest, ok := s.Rest(); ok || string(rest) != `{"a":1,"b":2,` {
		t.Errorf("%q, %t", rest, ok)
	}
}

// sameBase64 fails the test where checking and decoding differ.
func sameBase64(t *testing.T, text string) bool {
	t.Helper()
	n, err := wire.CheckBase64([]byte(text))
	decoded, decodeErr := wire.DecodeBase64(text)
	if (err == nil) != (decodeErr == nil) || err == nil && n != len(decoded) {
		t.Fatalf("%q: %d bytes, %v; decoded: %d bytes, %v", text, n, err, len(decoded), decodeErr)
	}
	return err == nil
}

func TestCheckBase64(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "AA==": true, "AAA=": true, "AAAA": true, "AAAAAA==": true, "AZaz09+/": true,
		"A": false, "AA": false, "AAA": false, "====": false, "A===": false, "AB==": false, "AAB=": false, "AA==AAAA": false,
		"AAA=AA==": false, "AA\nAA": false, "AAAA\n": false, "AAAA\r\n\r\n": false, "\n\n\n\n": false, "AAAA\n\n\n\n": false,
		"\n\n\n\nAAAA": false, "AA-_": false, "AA A": false, "AAAÿ": false, "AAA\x00": false, "AAAAAA=": false,
	} {
		if got := sameBase64(t, text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	// A foreign character at every place of a longer text.
	long := []byte(strings.Repeat("AZ09", 10))
	for i := range long {
		for _, c := range []byte("=-\n\x00\xff\"") {
			changed := bytes.Clone(long)
			changed[i] = c
			if padded := i == len(long)-1 && c == '='; sameBase64(t, string(changed)) && !padded {
				t.Errorf("%q was accepted", changed)
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = wire.CheckBase64([]byte("AAAAAA==")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBase64(f *testing.F) {
	f.Add("AAAA")
	f.Add("AAAA\nAA==")
	f.Fuzz(func(t *testing.T, text string) { sameBase64(t, text) })
}
