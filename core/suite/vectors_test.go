package suite_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

// vectorInput has the members of every input of the files read here. An
// unknown member fails the load, so that no part of a case goes unread.
type vectorInput struct {
	Op           string `json:"op"`
	Seed         string `json:"seed"`
	PublicKey    string `json:"publicKey"`
	Eseed        string `json:"eseed"`
	Ciphertext   string `json:"ciphertext"`
	Message      string `json:"message"`
	Context      string `json:"context"`
	Rnd          string `json:"rnd"`
	Signature    string `json:"signature"`
	SharedSecret string `json:"sharedSecret"`
	Header       string `json:"header"`
}

type vectorCase struct {
	name   string
	input  vectorInput
	expect map[string]any
}

// facts are what an operation found out, by the names used in "expect".
type facts map[string]string

// loadVectors reads the cases of a vector file whose op is in ops, or all of
// them without ops.
func loadVectors(t *testing.T, file string, ops ...string) []vectorCase {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Refs  map[string]any `json:"refs"`
		Cases []struct {
			Name   string `json:"name"`
			Input  any    `json:"input"`
			Expect any    `json:"expect"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var cases []vectorCase
	for _, c := range doc.Cases {
		input := expandMacros(t, c.Input, doc.Refs).(map[string]any)
		if len(ops) > 0 && !strings.Contains(" "+strings.Join(ops, " ")+" ", " "+input["op"].(string)+" ") {
			continue
		}
		v := vectorCase{name: c.Name, expect: expandMacros(t, c.Expect, doc.Refs).(map[string]any)}
		flat, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(flat))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&v.input); err != nil {
			t.Fatalf("%s: %q: %v", file, c.Name, err)
		}
		cases = append(cases, v)
	}
	if len(cases) == 0 {
		t.Fatalf("%s holds no case for %q", file, ops)
	}
	return cases
}

// expandMacros replaces {"$ref": name}, {"$repeat": [text, n]} and
// {"$concat": [parts]}.
func expandMacros(t *testing.T, v any, refs map[string]any) any {
	t.Helper()
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = expandMacros(t, e, refs)
		}
		return out
	case map[string]any:
		if name, ok := v["$ref"].(string); ok && len(v) == 1 {
			ref, ok := refs[name]
			if !ok {
				t.Fatalf("no ref %q", name)
			}
			return expandMacros(t, ref, refs)
		}
		if args, ok := v["$repeat"].([]any); ok && len(v) == 1 {
			return strings.Repeat(args[0].(string), int(args[1].(float64)))
		}
		if parts, ok := v["$concat"].([]any); ok && len(v) == 1 {
			var b strings.Builder
			for _, p := range parts {
				b.WriteString(expandMacros(t, p, refs).(string))
			}
			return b.String()
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = expandMacros(t, e, refs)
		}
		return out
	}
	return v
}

// runVectors evaluates every case and compares the outcome with "expect":
// the code, or each stated fact.
func runVectors(t *testing.T, cases []vectorCase, skip map[string]bool, eval func(*testing.T, vectorInput) (facts, error)) {
	skipped, run := 0, 0
	for _, c := range cases {
		if skip[c.name] {
			skipped++
			continue
		}
		run++
		t.Run(c.name, func(t *testing.T) {
			found, err := eval(t, c.input)
			if code, ok := c.expect["error"]; ok {
				if err == nil || err.Error() != code {
					t.Fatalf("got %v (error %v), want %v", found, err, code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.expect["ok"] != true {
				t.Fatalf("expects neither an error nor ok: %v", c.expect)
			}
			for name, want := range c.expect {
				if got := found[name]; name != "ok" && got != want {
					t.Errorf("%s is %.80q, want %.80q", name, got, want)
				}
			}
		})
	}
	if skipped != len(skip) || run+skipped != len(cases) {
		t.Errorf("%d cases: %d run, %d skipped, %d named to skip", len(cases), run, skipped, len(skip))
	}
}

// The codes that the callers of suite would give to its failures.
var (
	errInvalidSignature = errors.New("invalid_signature")
	errInvalidArgument  = errors.New("invalid_argument")
	errDecryptionFailed = errors.New("decryption_failed")
)

func TestXWingVectors(t *testing.T) {
	// 03#x-wing leaves both outcomes open; TestAllZeroShares pins ours.
	open := map[string]bool{
		"decapsulate with an all-zero X25519 share": true,
		"encapsulate to an all-zero X25519 key":     true,
	}
	runVectors(t, loadVectors(t, "xwing.json"), open, func(t *testing.T, in vectorInput) (facts, error) {
		switch in.Op {
		case "keygen":
			pk := suite.NewDecapsulationKey(seedOf(t, in.Seed)).PublicKey()
			return facts{"publicKey": base64Of(pk), "id": suite.Hex256(pk)}, nil
		case "encapsulate":
			k, err := suite.ParseEncapsulationKey(unbase64(t, in.PublicKey))
			if err != nil {
				return nil, errInvalidArgument
			}
			ss, ct, err := k.EncapsulateDeterministic(unhex(t, in.Eseed))
			if err != nil {
				return nil, errInvalidArgument
			}
			return facts{"sharedSecret": hex.EncodeToString(ss), "ciphertext": base64Of(ct)}, nil
		case "decapsulate":
			ss, err := suite.NewDecapsulationKey(seedOf(t, in.Seed)).Decapsulate(unbase64(t, in.Ciphertext))
			if err != nil {
				return nil, errDecryptionFailed
			}
			return facts{"sharedSecret": hex.EncodeToString(ss)}, nil
		}
		t.Fatalf("unknown op %q", in.Op)
		return nil, nil
	})
}

func TestMLDSAVectors(t *testing.T) {
	runVectors(t, loadVectors(t, "mldsa.json"), nil, func(t *testing.T, in vectorInput) (facts, error) {
		switch in.Op {
		case "keygen":
			return facts{"publicKey": base64Of(suite.NewSigningKey(seedOf(t, in.Seed)).PublicKey())}, nil
		case "sign":
			k := suite.NewSigningKey(seedOf(t, in.Seed))
			rnd, sign := unhex(t, in.Rnd), k.Sign
			if bytes.Equal(rnd, make([]byte, len(rnd))) {
				sign = k.SignDeterministic
			} else {
				randomIs(t, rnd)
			}
			sig, err := sign(unhex(t, in.Message), in.Context)
			if err != nil {
				return nil, err
			}
			return facts{"signature": base64Of(sig)}, nil
		case "verify":
			k, err := suite.ParseVerifyKey(unbase64(t, in.PublicKey))
			if err != nil || !k.Verify(unhex(t, in.Message), unbase64(t, in.Signature), in.Context) {
				return nil, errInvalidSignature
			}
			return nil, nil
		}
		t.Fatalf("unknown op %q", in.Op)
		return nil, nil
	})
}

// TestPacketKeyVectors runs the one op of payload.json that is suite's alone.
func TestPacketKeyVectors(t *testing.T) {
	runVectors(t, loadVectors(t, "payload.json", "packetKey"), nil, func(t *testing.T, in vectorInput) (facts, error) {
		return facts{"hex": hex.EncodeToString(suite.PacketKey(unhex(t, in.SharedSecret), unhex(t, in.Header)))}, nil
	})
}

// TestExpandMacros keeps the loader honest: a macro taken for a value would
// make a case compare nothing with nothing.
func TestExpandMacros(t *testing.T) {
	var in any
	err := json.Unmarshal([]byte(`{"a": {"$concat": ["x", {"$repeat": ["yz", 2]}, {"$ref": "r"}]}, "b": [{"$ref": "r"}]}`), &in)
	if err != nil {
		t.Fatal(err)
	}
	got := expandMacros(t, in, map[string]any{"r": map[string]any{"$repeat": []any{"w", float64(3)}}})
	want := map[string]any{"a": "xyzyzwww", "b": []any{"www"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// randomIs makes the next bytes of crypto/rand the given ones, for this test
// and with no other test running beside it.
func randomIs(t *testing.T, b []byte) {
	t.Helper()
	old := rand.Reader
	rest := bytes.NewReader(b)
	rand.Reader = rest
	t.Cleanup(func() {
		rand.Reader = old
		if rest.Len() != 0 {
			t.Errorf("%d of the given random bytes were not used", rest.Len())
		}
	})
}

func seedOf(t *testing.T, s string) *suite.Seed {
	t.Helper()
	seed, err := suite.SeedFromBytes(unhex(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
