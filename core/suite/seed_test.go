package suite

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

func TestSeedFromBytes(t *testing.T) {
	for _, n := range []int{0, 1, 31, 33, 64} {
		if _, err := SeedFromBytes(make([]byte, n)); err == nil {
			t.Errorf("a seed of %d bytes is accepted", n)
		}
	}
	b := bytes.Repeat([]byte{7}, SeedBytes)
	s, err := SeedFromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	want := bytes.Repeat([]byte{7}, SeedBytes)
	if got := s.Expose(); !bytes.Equal(got, want) {
		t.Errorf("the seed follows the caller's slice: %x", got)
	}
	clear(s.Expose())
	if got := s.Expose(); !bytes.Equal(got, want) {
		t.Errorf("Expose gives the seed's own bytes away: %x", got)
	}
}

func TestSeedEqual(t *testing.T) {
	a, b := NewSeed(), NewSeed()
	same, err := SeedFromBytes(a.Expose())
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(same) || !a.Equal(a) {
		t.Error("equal seeds differ")
	}
	if a.Equal(b) || a.Equal(nil) || a.Equal(new(Seed)) || new(Seed).Equal(new(Seed)) {
		t.Error("different or empty seeds are equal")
	}
	a.Destroy()
	zero, err := SeedFromBytes(make([]byte, SeedBytes))
	if err != nil {
		t.Fatal(err)
	}
	if a.Equal(a) || a.Equal(zero) || zero.Equal(a) {
		t.Error("a destroyed seed equals something")
	}
}

func TestSeedIsIncomparable(t *testing.T) {
	if reflect.TypeFor[Seed]().Comparable() {
		t.Error("== would compare seeds, and not in constant time")
	}
}

func TestSeedDestroy(t *testing.T) {
	s := NewSeed()
	shared := *s
	memory := s.secret()
	s.Destroy()
	s.Destroy()
	if *memory != (seedSecret{}) {
		t.Error("bytes are left")
	}
	new(Seed).Destroy()

	for name, use := range map[string]func(){
		"Expose":              func() { s.Expose() },
		"Expose of a copy":    func() { shared.Expose() },
		"Expose of zero":      func() { new(Seed).Expose() },
		"NewSigningKey":       func() { NewSigningKey(s) },
		"NewDecapsulationKey": func() { NewDecapsulationKey(s) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("a seed without a key is used")
				}
			}()
			use()
		})
	}
}

func TestKeysDestroy(t *testing.T) {
	signing := NewSigningKey(NewSeed())
	expanded := signing.key()
	signing.Destroy()
	if *expanded != (mldsaPrivate{}) {
		t.Error("expanded signing key is left")
	}
	decapsulation := NewDecapsulationKey(NewSeed())
	kem := decapsulation.key()
	decapsulation.Destroy()
	if !reflect.ValueOf(kem).Elem().IsZero() {
		t.Error("expanded decapsulation key is left")
	}
}

// holders are all the ways in which a seed or key can sit in a value that
// somebody prints.
func holders(s *Seed, sk *SigningKey, dk *DecapsulationKey) map[string]any {
	return map[string]any{
		"pointer":             s,
		"value":               *s,
		"pointer to pointer":  &s,
		"exported value":      struct{ Seed Seed }{*s},
		"exported pointer":    struct{ Seed *Seed }{s},
		"unexported value":    struct{ seed Seed }{*s},
		"unexported pointer":  struct{ seed *Seed }{s},
		"pointer to holder":   &struct{ seed Seed }{*s},
		"nested":              struct{ in struct{ seed Seed } }{struct{ seed Seed }{*s}},
		"embedded":            struct{ Seed }{*s},
		"slice":               []Seed{*s},
		"slice of pointers":   []*Seed{s},
		"array":               [1]Seed{*s},
		"map":                 map[string]Seed{"k": *s},
		"any":                 []any{*s, s},
		"signing key":         sk,
		"decapsulation key":   dk,
		"signing holder":      struct{ k *SigningKey }{sk},
		"decapsulation slice": []*DecapsulationKey{dk},
		"key values":          struct{ d, D, s, S any }{*dk, *dk, *sk, *sk},
		"key value fields": struct {
			d DecapsulationKey
			S SigningKey
		}{*dk, *sk},
	}
}

// readable is a seed of letters, which also shows where a verb prints text.
const readable = "Correct Horse Battery Staple 123"

func TestSecretsDoNotPrint(t *testing.T) {
	raw := []byte(readable)
	s, err := SeedFromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	sk, dk := NewSigningKey(s), NewDecapsulationKey(s)
	for name, v := range holders(s, sk, dk) {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "% x", "%q", "%d", "%b", "%o", "%c", "%U", "%t", "%e"} {
				mustHide(t, verb, fmt.Sprintf(verb, v), raw)
			}
			mustHide(t, "print", fmt.Sprint(v)+fmt.Sprintln(v)+fmt.Errorf("error: %v", v).Error(), raw)
			for _, h := range []func(*bytes.Buffer) slog.Handler{
				func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
				func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
			} {
				var b bytes.Buffer
				slog.New(h(&b)).With("with", v).Info("message", "v", v, slog.Group("g", "v", v))
				mustHide(t, "slog", b.String(), raw)
			}
			text, _ := json.Marshal(v)
			mustHide(t, "json", string(text), raw)
			var b bytes.Buffer
			_ = gob.NewEncoder(&b).Encode(v)
			mustHide(t, "gob", b.String(), raw)
		})
	}
}

// mustHide looks for eight bytes of the seed in every form in which a formatter
// writes bytes.
func mustHide(t *testing.T, how, text string, raw []byte) {
	t.Helper()
	part := raw[:8]
	forms := []string{
		string(part),
		base64.StdEncoding.EncodeToString(raw[:9]),
		fmt.Sprintf("%x", part),
		fmt.Sprintf("%X", part),
		fmt.Sprintf("% x", part),
		strings.Trim(fmt.Sprintf("%#v", part), "[]byte{}"),
	}
	for _, verb := range []string{"%d", "%b", "%o", "%x", "%X", "%c", "%U", "%q"} {
		each := make([]string, len(part))
		for i, c := range part {
			each[i] = fmt.Sprintf(verb, c)
		}
		forms = append(forms, strings.Join(each, " "))
	}
	for _, form := range forms {
		if strings.Contains(text, form) {
			t.Errorf("%s shows the seed: %.200q", how, text)
			return
		}
	}
}

// TestMustHide shows that the search would find a seed that is printed.
func TestMustHide(t *testing.T) {
	raw := []byte(readable)
	array := [SeedBytes]byte(raw)
	text, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{
		string(raw), string(text), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), fmt.Sprintf("% x", raw),
		fmt.Sprintf("%v", array), fmt.Sprintf("%d", array), fmt.Sprintf("%b", array), fmt.Sprintf("%o", array),
		fmt.Sprintf("%c", array), fmt.Sprintf("%U", array), fmt.Sprintf("%q", array), fmt.Sprintf("%#v", array),
		fmt.Sprintf("%x", struct{ seed [SeedBytes]byte }{array}),
	} {
		found := new(testing.T)
		mustHide(found, "leak", leak, raw)
		if !found.Failed() {
			t.Errorf("not found in %.100q", leak)
		}
	}
}

func TestSeedTexts(t *testing.T) {
	s := NewSeed()
	for _, text := range []string{
		s.String(), s.GoString(), s.LogValue().String(), fmt.Sprint(s), fmt.Sprint(*s), fmt.Sprintf("%x", *s),
		fmt.Sprintf("%#v", s), fmt.Sprintf("%08q", s),
	} {
		if text != "[seed]" {
			t.Errorf("prints %q", text)
		}
	}
	if got := fmt.Sprint(NewSigningKey(s), NewDecapsulationKey(s)); got != "[signing key] [decapsulation key]" {
		t.Errorf("keys print %q", got)
	}
}

func TestSeedRefusesEncoding(t *testing.T) {
	s := NewSeed()
	for _, v := range []any{s, *s, struct{ S *Seed }{s}, struct{ S Seed }{*s}, map[string]*Seed{"k": s}} {
		if _, err := json.Marshal(v); err == nil {
			t.Errorf("%T is written as JSON", v)
		}
		if err := gob.NewEncoder(new(bytes.Buffer)).Encode(v); err == nil {
			t.Errorf("%T is written as gob", v)
		}
	}
	if _, err := s.MarshalText(); err == nil {
		t.Error("written as text")
	}
	if _, err := xml.Marshal(s); err == nil {
		t.Error("written as XML")
	}
}
