package suite_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

func TestSealKey(t *testing.T) {
	raw := suite.RandomBytes(32)
	key, err := suite.NewSealKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{"", "x", strings.Repeat("long ", 1000)} {
		sealed := key.Seal([]byte(plain), []byte("row"))
		if again := key.Seal([]byte(plain), []byte("row")); bytes.Equal(again[:12], sealed[:12]) {
			t.Error("a nonce came twice")
		}
		// The form is that of [suite.Seal].
		if opened, err := suite.Open(raw, sealed, []byte("row")); err != nil || string(opened) != plain {
			t.Errorf("%d bytes: Open: %v", len(plain), err)
		}
		for name, open := range map[string]func([]byte) ([]byte, error){
			"another row": func(s []byte) ([]byte, error) { return key.Open(s, []byte("other")) },
			"cut short":   func(s []byte) ([]byte, error) { return key.Open(s[:len(s)-1], []byte("row")) },
			"no nonce":    func(s []byte) ([]byte, error) { return key.Open(s[:27], []byte("row")) },
		} {
			if opened, err := open(bytes.Clone(sealed)); err == nil {
				t.Errorf("%d bytes, %s: opened as %q", len(plain), name, opened)
			}
		}
		if opened, err := key.Open(sealed, []byte("row")); err != nil || string(opened) != plain {
			t.Errorf("%d bytes: %v", len(plain), err)
		}
	}
}

func TestSealKeyRefusesShortKeys(t *testing.T) {
	for _, n := range []int{0, 16, 24, 31, 33} {
		if _, err := suite.NewSealKey(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes was taken", n)
		}
	}
}

func TestSealKeyDoesNotPrint(t *testing.T) {
	raw := bytes.Repeat([]byte{0xab}, 32)
	key, err := suite.NewSealKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, v := range []any{key, *key} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, "171 171") || strings.Contains(text, "abab") || strings.Contains(text, "0xab") {
				t.Errorf("%s prints the key: %.80s", verb, text)
			}
		}
	}
}
