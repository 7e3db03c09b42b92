package packet_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func sampleContent() *packet.Content {
	return &packet.Content{
		Type:         profile.TextType,
		SchemaDigest: strings.Repeat("a", 64),
		Body:         wire.NewObject(wire.M("message", wire.NewString("hello"))),
		Prekey:       bytes.Repeat([]byte{7}, suite.PrekeyBytes),
	}
}

func TestContentRoundTrip(t *testing.T) {
	plain, threaded, retried := sampleContent(), sampleContent(), sampleContent()
	threaded.ThreadID = "thread"
	object := wire.NewObject(wire.M("a", wire.NewInt(1)))
	retried.Admission = &packet.Admission{Proof: object, Permit: object, Source: object}
	for name, c := range map[string]*packet.Content{"plain": plain, "threaded": threaded, "retried": retried} {
		plaintext, err := c.Canonical()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := packet.ParseContent(plaintext)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := got.Canonical(); err != nil || !bytes.Equal(again, plaintext) {
			t.Errorf("%s: %s, want %s", name, again, plaintext)
		}
		if (got.Admission != nil) != (c.Admission != nil) || got.ThreadID != c.ThreadID {
			t.Errorf("%s: read as another", name)
		}
	}
}

// TestPlaintextBytes spells out the plaintext of a packet (03#private-content).
func TestPlaintextBytes(t *testing.T) {
	c := sampleContent()
	c.ThreadID = "t"
	got, err := c.Canonical()
	want := `{"body":{"message":"hello"},"prekey":"` + wire.EncodeBase64(c.Prekey) +
		`","schemaDigest":"` + c.SchemaDigest + `","threadId":"t","type":"ace:text:1"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, want %s (%v)", got, want, err)
	}
}

func TestSenderRefusesContent(t *testing.T) {
	object := wire.NewObject()
	for name, change := range map[string]func(*packet.Content){
		"type":         func(c *packet.Content) { c.Type = "text" },
		"schemaDigest": func(c *packet.Content) { c.SchemaDigest = "" },
		"threadId":     func(c *packet.Content) { c.ThreadID = "a\nb" },
		"body":         func(c *packet.Content) { c.Body = wire.Value{} },
		"prekey":       func(c *packet.Content) { c.Prekey = nil },
		"admission":    func(c *packet.Content) { c.Admission = &packet.Admission{Proof: object, Permit: object} },
		"too large": func(c *packet.Content) {
			c.Body = wire.NewObject(wire.M("message", wire.NewString(strings.Repeat("x", wire.MaxPlaintextBytes))))
		},
		"no UTF-8": func(c *packet.Content) {
			c.Body = wire.NewObject(wire.M("message", wire.NewString("a\xff")))
		},
		"too deep": func(c *packet.Content) {
			for range wire.MaxJSONDepth + 1 {
				c.Body = wire.NewObject(wire.M("a", c.Body))
			}
		},
		"admission on a receipt": func(c *packet.Content) {
			c.Type = profile.ReceiptType
			c.Admission = &packet.Admission{Proof: object, Permit: object, Source: object}
		},
	} {
		c := sampleContent()
		change(c)
		_, err := c.Canonical()
		wantCode(t, name, err, fault.InvalidBody)
	}
}

// TestPrekeyOfMalformedContent: the key that a packet offers is known, though
// everything else of its content be wrong (06#receive-pipeline).
func TestPrekeyOfMalformedContent(t *testing.T) {
	c := sampleContent()
	v := c.Value()
	for _, tt := range []struct {
		name string
		text string
		kept bool
	}{
		{"unknown member", text(v.With("x", wire.NewInt(1))), true},
		{"no type", text(v.Without("type")), true},
		{"only the prekey", text(wire.NewObject(wire.M("prekey", wire.NewString(wire.EncodeBase64(c.Prekey))))), true},
		{"no prekey", text(v.Without("prekey")), false},
		{"short prekey", text(v.With("prekey", wire.NewString(wire.EncodeBase64(c.Prekey[1:])))), false},
		{"prekey and no object", text(wire.NewArray(v)), false},
		{"bad syntax", strings.TrimSuffix(text(v), "}"), false},
	} {
		got, err := packet.ParseContent([]byte(tt.text))
		wantCode(t, tt.name, err, fault.InvalidBody)
		if (got != nil) != tt.kept {
			t.Errorf("%s: content %v", tt.name, got)
		}
		if got != nil && (!bytes.Equal(got.Prekey, c.Prekey) || got.Type != "" || got.Body.Kind() != wire.Null) {
			t.Errorf("%s: more than the prekey: %+v", tt.name, got)
		}
	}
	deep := v.With("x", wire.NewInt(1)).With("body", nested(wire.MaxJSONDepth))
	if got, err := packet.ParseContentValue(deep); err == nil || got == nil {
		t.Errorf("too deep: %v, %v", got, err)
	}
}

func nested(depth int) wire.Value {
	v := wire.NewObject()
	for range depth {
		v = wire.NewObject(wire.M("a", v))
	}
	return v
}

func TestContentBounds(t *testing.T) {
	c := sampleContent()
	size := len(text(c.Value())) - len("hello")
	fill := func(n int) []byte {
		c.Body = wire.NewObject(wire.M("message", wire.NewString(strings.Repeat("x", n-size))))
		return c.Value().Canonical()
	}
	_, err := packet.ParseContent(fill(wire.MaxPlaintextBytes))
	wantCode(t, "largest", err, "")
	_, err = packet.ParseContent(fill(wire.MaxPlaintextBytes + 1))
	wantCode(t, "one more", err, fault.InvalidBody)
	c.Body = nested(wire.MaxJSONDepth - 1)
	_, err = packet.ParseContent(c.Value().Canonical())
	wantCode(t, "deepest", err, "")
	c.Body = nested(wire.MaxJSONDepth)
	_, err = packet.ParseContent(c.Value().Canonical())
	wantCode(t, "one deeper", err, fault.InvalidBody)
}

func FuzzContent(f *testing.F) {
	c := sampleContent()
	f.Add(c.Value().Canonical())
	c.ThreadID = "thread"
	object := wire.NewObject()
	c.Admission = &packet.Admission{Proof: object, Permit: object, Source: object}
	f.Add(c.Value().Canonical())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := packet.ParseContent(data)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidBody {
				t.Fatalf("code of %v", err)
			}
			if c != nil && len(c.Prekey) != suite.PrekeyBytes {
				t.Fatalf("salvaged %d bytes", len(c.Prekey))
			}
			return
		}
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil || !c.Value().Equal(v) {
			t.Fatalf("%s does not stand for %s", c.Value().Canonical(), data)
		}
	})
}
