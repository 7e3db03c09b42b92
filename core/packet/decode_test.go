package packet_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/wire"
)

// decodeSlowly decodes without the short way for canonical text.
func decodeSlowly(data []byte) (*packet.Packet, error) {
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidPacket, err)
	}
	return packet.DecodeValue(v)
}

func samplePacket(t testing.TB) *packet.Packet {
	public, _ := newPrekey(t)
	return seal(t, newIdentity(t), public, "hello")
}

func TestDecodeKeepsCanonicalBytes(t *testing.T) {
	p := samplePacket(t)
	if !bytes.Equal(p.Raw(), p.Value().Canonical()) {
		t.Fatalf("raw is not canonical: %s", p.Raw())
	}
	spaced := bytes.ReplaceAll(p.Raw(), []byte(`,"`), []byte(" ,\n\t\""))
	for name, data := range map[string][]byte{"canonical": p.Raw(), "spaced": spaced} {
		got, err := packet.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !same(got, p) {
			t.Errorf("%s: decoded to another packet", name)
		}
	}
}

// TestDecodeOrder has two faults at a time: ace is checked first, and before
// that only that there is an object (03#decoding).
func TestDecodeOrder(t *testing.T) {
	valid := samplePacket(t).Value()
	many := make([]wire.Member, 0, 71)
	for i := range 70 {
		many = append(many, wire.M("x"+wire.Decimal(int64(i)), wire.NewInt(1)))
	}
	crowd := wire.NewObject(append(many, wire.M("ace", wire.NewString("2")))...)
	crowded := valid
	for i := range 70 {
		crowded = crowded.With("A"+wire.Decimal(int64(i)), wire.NewInt(1)) // before ace
	}
	for _, c := range []struct {
		name string
		text string
		code fault.Code
	}{
		{"valid", text(valid), ""},
		{"version and unknown member", text(valid.With("ace", wire.NewString("2")).With("x", wire.NewInt(1))), fault.UnsupportedVersion},
		{"version and no to", text(valid.With("ace", wire.NewString("2")).Without("to")), fault.UnsupportedVersion},
		{"version and a crowd of members", text(crowd), fault.UnsupportedVersion},
		{"a crowd of members before the version", text(crowded), fault.InvalidPacket},
		{"no version and nothing else", "{}", fault.UnsupportedVersion},
		{"version a number", text(valid.With("ace", wire.NewInt(1))), fault.UnsupportedVersion},
		{"version and bad syntax", `{"ace":"2"`, fault.InvalidPacket},
		{"version and a duplicate", `{"ace":"2","ace":"2"}`, fault.InvalidPacket},
		{"a list", `[{"ace":"2"}]`, fault.InvalidPacket},
		{"empty", "", fault.InvalidPacket},
		{"to itself", text(mustSet(valid, "to", "from")), fault.InvalidPacket},
		{"unknown member", text(valid.With("x", wire.NewInt(1))), fault.InvalidPacket},
		{"text after it", text(valid) + "x", fault.InvalidPacket},
	} {
		_, err := packet.Decode([]byte(c.text))
		wantCode(t, c.name, err, c.code)
	}
	largest := text(valid) + strings.Repeat(" ", wire.MaxPacketBytes-len(text(valid)))
	_, err := packet.Decode([]byte(largest))
	wantCode(t, "largest", err, "")
	_, err = packet.Decode([]byte(largest + " "))
	wantCode(t, "too large", err, fault.InvalidPacket)
}

func text(v wire.Value) string { return string(v.Canonical()) }

func mustSet(v wire.Value, to, from string) wire.Value {
	value, _ := v.Get(from)
	return v.With(to, value)
}

// TestShortWayAgrees changes, doubles and drops single bytes of a canonical
// packet: the short way must accept exactly the canonical ones and read the
// same out of them.
func TestShortWayAgrees(t *testing.T) {
	raw := samplePacket(t).Raw()
	accepted := 0
	for i := 0; i < len(raw); i++ {
		if inBase64(raw, i) && i%61 != 0 {
			continue
		}
		for _, insert := range []string{"", "0", "9", "\"", "\\", ",", "=", "A", "\n", "\xff", string(raw[i]) + string(raw[i])} {
			changed := append(append(bytes.Clone(raw[:i]), insert...), raw[i+1:]...)
			if agree(t, changed) {
				accepted++
			}
		}
	}
	if accepted == 0 {
		t.Error("no changed packet was accepted: the test compares nothing")
	}
}

func inBase64(raw []byte, i int) bool {
	return i > 64 && i+64 < len(raw) && !bytes.ContainsAny(raw[i-64:i+64], `"`)
}

// same reports whether two packets say the same, by their fields and as bytes.
func same(a, b *packet.Packet) bool {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		if x.Type().Field(i).IsExported() && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return bytes.Equal(a.Raw(), b.Raw())
}

// agree fails the test when the two ways to decode differ, and reports whether
// they accepted the text.
func agree(t *testing.T, data []byte) bool {
	t.Helper()
	fast, fastErr := packet.Decode(data)
	slow, slowErr := decodeSlowly(data)
	agreeOnEnvelope(t, data, slow)
	if fault.CodeOf(fastErr) != fault.CodeOf(slowErr) {
		t.Fatalf("%s: %v, and the long way %v", data, fastErr, slowErr)
	}
	if fastErr != nil {
		return false
	}
	if !same(fast, slow) {
		t.Fatalf("%s: two packets", data)
	}
	if !bytes.Equal(fast.Raw(), fast.Value().Canonical()) {
		t.Fatalf("%s: raw is not canonical", data)
	}
	return true
}

// agreeOnEnvelope fails the test unless the relay's way reads of the canonical
// packet, and of nothing else, what the packet says. p is nil for what is none.
func agreeOnEnvelope(t *testing.T, data []byte, p *packet.Packet) {
	t.Helper()
	const more = `,"permit":"}`
	e, rest, ok := packet.CutEnvelope(append(bytes.Clone(data), more...))
	canonical := p != nil && bytes.Equal(data, p.Raw())
	if canonical && (!ok || string(rest) != more || !reflect.DeepEqual(e, p.Envelope())) {
		t.Fatalf("%s: the envelope is %+v before %s (%t)", data, e, rest, ok)
	}
	if !canonical && ok && string(rest) == more {
		t.Fatalf("%s: is no canonical packet, and has an envelope", data)
	}
}

func FuzzDecode(f *testing.F) {
	raw := samplePacket(f).Raw()
	f.Add(raw)
	f.Add(bytes.ReplaceAll(raw, []byte(`,"`), []byte(" ,\"")))
	f.Add([]byte(`{"ace":"2"}`))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}
