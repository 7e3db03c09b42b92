package relayapi_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// decodeSendSlowly is DecodeSend by way of the whole tree.
func decodeSendSlowly(body []byte) (relayapi.SendRequest, error) {
	value, err := relayapi.ParseBody(body)
	if err != nil {
		return relayapi.SendRequest{}, err
	}
	send, err := relayapi.ParseSend(value)
	if err != nil {
		return relayapi.SendRequest{}, err
	}
	p, err := packet.DecodeValue(send.Packet)
	if err != nil {
		return relayapi.SendRequest{}, err
	}
	request := relayapi.SendRequest{Packet: p.Envelope(), HasPermit: send.HasPermit}
	if send.HasPermit {
		request.Permit = send.Permit.Canonical()
	}
	return request, nil
}

// sendAgrees fails the test when the ways to decode differ, and reports whether
// they accepted the body.
func sendAgrees(t testing.TB, body []byte) bool {
	t.Helper()
	fast, fastErr := relayapi.DecodeSend(body)
	slow, slowErr := decodeSendSlowly(body)
	if fault.CodeOf(fastErr) != fault.CodeOf(slowErr) || (fastErr == nil) != (slowErr == nil) {
		t.Fatalf("%.200s: %v, and the long way %v", body, fastErr, slowErr)
	}
	if fastErr != nil {
		return false
	}
	a, b := fast.Packet, slow.Packet
	if a.From != b.From || a.To != b.To || a.Timestamp != b.Timestamp || !bytes.Equal(a.Raw, b.Raw) || fast.HasPermit != slow.HasPermit {
		t.Fatalf("%.200s: %+v, and the long way %+v", body, fast, slow)
	}
	// What is no permit may come back as less, which is no permit either.
	if !bytes.Equal(fast.Permit, slow.Permit) && (isPermit(t, slow.Permit) || isPermit(t, fast.Permit)) {
		t.Fatalf("%.200s: the permit is %s, and the long way %s", body, fast.Permit, slow.Permit)
	}
	return true
}

func isPermit(t testing.TB, text []byte) bool {
	t.Helper()
	v, err := wire.Parse(text, wire.MaxJSONDepth+2)
	if err != nil {
		t.Fatalf("%.200s is no JSON: %v", text, err)
	}
	_, err = admission.DecodePermit(v)
	return err == nil
}

// sendParts returns the canonical JSON of a packet and of a permit for it.
func sendParts(t testing.TB) (packetText, permit []byte) {
	t.Helper()
	sender, recipient := newAgent(t, now-1000, 0), newAgent(t, now-1000, 0)
	prekey, err := suite.ParseEncapsulationKey(suite.NewDecapsulationKey(suite.NewSeed()).PublicKey())
	must(t, err)
	p, err := packet.Seal(sender.Identity, recipient.ACEID(), suite.NewMessageID(), now, []byte(`{"body":{}}`), prekey)
	must(t, err)
	granted, err := admission.IssuePermit(recipient.Identity, sender.ACEID(), now, 1000)
	must(t, err)
	return p.Raw(), granted.Raw()
}

// isPartOf reports whether part is memory of whole.
func isPartOf(part, whole []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return at < uintptr(len(whole))
}

// TestDecodeSendCopiesNothing: the bodies that clients write are taken as they
// are, and only identifiers get memory of their own.
func TestDecodeSendCopiesNothing(t *testing.T) {
	p, permit := sendParts(t)
	for name, body := range map[string][]byte{
		"packet":            relayapi.SendBody(p, nil),
		"packet and permit": relayapi.SendBody(p, permit),
		"permit and packet": []byte(`{"permit":` + string(permit) + `,"packet":` + string(p) + `}`),
	} {
		t.Run(name, func(t *testing.T) {
			sendAgrees(t, body)
			request, err := relayapi.DecodeSend(body)
			must(t, err)
			if !isPartOf(request.Packet.Raw, body) || !bytes.Equal(request.Packet.Raw, p) {
				t.Error("the packet was copied or changed")
			}
			if request.HasPermit != (request.Permit != nil) || request.HasPermit && (!isPartOf(request.Permit, body) || !bytes.Equal(request.Permit, permit)) {
				t.Error("the permit was copied or changed")
			}
			// An append must not write over what follows in the body.
			if cap(request.Packet.Raw) != len(request.Packet.Raw) || cap(request.Permit) != len(request.Permit) {
				t.Error("a part has room that belongs to the rest")
			}
			if n := testing.AllocsPerRun(10, func() { _, _ = relayapi.DecodeSend(body) }); n > 4 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestDecodeSendOrder: the body comes first, then the version of the packet,
// then the rest of it; the permit is judged later (07#send, 03#decoding).
func TestDecodeSendOrder(t *testing.T) {
	p, permit := sendParts(t)
	parsed, err := wire.Parse(p, wire.MaxJSONDepth)
	must(t, err)
	with := func(name string, v wire.Value) string { return string(parsed.With(name, v).Canonical()) }
	from, _ := parsed.Get("from")
	list := func(n int) string { return "[" + strings.Repeat("0,", n) + "0]" }
	crowd := func(n int, more string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"A%d":0,`, i)
		}
		return "{" + b.String() + more + "}"
	}
	long, escaped := strings.Replace(string(p), `"ace"`, `"\u0061ce"`, 1), strings.ReplaceAll(string(p), `,"`, " ,\t\"")
	for _, c := range []struct {
		name, body string
		code       fault.Code
	}{
		{"canonical", `{"packet":` + string(p) + `}`, ""},
		{"spaces", " {\"packet\" :" + escaped + " } \n", ""},
		{"escapes", `{"packet":` + long + `}`, ""},
		{"escaped names", `{"pack\u0065t":` + string(p) + `,"p\u0065rmit":null}`, ""},
		{"permit null", `{"packet":` + string(p) + `,"permit":null}`, ""},
		{"permit a long list", `{"packet":` + string(p) + `,"permit":` + list(5000) + `}`, ""},
		{"permit of many members", `{"packet":` + string(p) + `,"permit":` + crowd(100, `"x":1`) + `}`, ""},
		{"permit with a stranger in it", `{"packet":` + string(p) + `,"permit":` + strings.Replace(string(permit), "{", `{"a":[],`, 1) + `}`, ""},
		{"permit signed by a list", `{"permit":` + strings.Replace(string(permit), `"ml-dsa-65"`, `[1]`, 1) + `,"packet":` + string(p) + `}`, ""},
		{"permit too deep", `{"packet":` + string(p) + `,"permit":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, ""},
		{"permit of two issuers", `{"packet":` + string(p) + `,"permit":` + strings.Replace(string(permit), "{", `{"issuer":1,`, 1) + `}`, fault.InvalidArgument},
		{"permit cut off", `{"packet":` + string(p) + `,"permit":` + string(permit[:90]) + `}`, fault.InvalidArgument},
		{"empty", "", fault.InvalidArgument},
		{"only a brace", "{", fault.InvalidArgument},
		{"only the last brace", "}", fault.InvalidArgument},
		{"permit left out", `{"packet":` + string(p) + `,"permit":}`, fault.InvalidArgument},
		{"packet left out", `{"packet":}`, fault.InvalidArgument},
		{"no packet", `{}`, fault.InvalidArgument},
		{"permit alone", `{"permit":` + string(permit) + `}`, fault.InvalidArgument},
		{"two packets", `{"packet":` + string(p) + `,"packet":` + string(p) + `}`, fault.InvalidArgument},
		{"two permits", `{"permit":` + string(permit) + `,"packet":` + string(p) + `,"permit":` + string(permit) + `}`, fault.InvalidArgument},
		{"unknown member", `{"packet":` + string(p) + `,"x":1}`, fault.InvalidArgument},
		{"unknown members without end", crowd(5000, `"packet":`+string(p)), fault.InvalidArgument},
		{"text after it", `{"packet":` + string(p) + `}x`, fault.InvalidArgument},
		{"a list", `[` + string(p) + `]`, fault.InvalidArgument},
		{"no UTF-8", `{"packet":` + string(p) + `,"permit":"` + "\xff" + `"}`, fault.InvalidArgument},
		{"unknown member and another version", `{"packet":` + with("ace", wire.NewString("2")) + `,"x":1}`, fault.InvalidArgument},
		{"another version and unknown member", `{"packet":` + strings.Replace(with("ace", wire.NewString("2")), "{", `{"x":1,`, 1) + `}`, fault.UnsupportedVersion},
		{"another version after many members", `{"packet":` + crowd(5000, `"ace":"2"`) + `}`, fault.UnsupportedVersion},
		{"our version after many members", `{"packet":` + crowd(5000, `"ace":"1"`) + `}`, fault.InvalidPacket},
		{"our version before many members", `{"packet":{"ace":"1",` + crowd(5000, `"x":1`)[1:] + `}`, fault.InvalidPacket},
		{"two versions after many members", `{"packet":` + crowd(5000, `"ace":"1","ace":"2"`) + `}`, fault.InvalidArgument},
		{"duplicates among many members", `{"packet":` + crowd(5000, `"A7":1`) + `}`, fault.InvalidArgument},
		{"duplicates in what is deep", `{"packet":{"a":[[{"b":{"b":1,"b":2}}]]}}`, fault.InvalidArgument},
		{"a number beyond binary64 in what is deep", `{"packet":{"a":[[{"b":[1e400]}]]}}`, fault.InvalidArgument},
		{"nothing of a packet", `{"packet":{}}`, fault.UnsupportedVersion},
		{"version a list", `{"packet":` + with("ace", wire.NewArray(wire.NewString("1"))) + `}`, fault.UnsupportedVersion},
		{"packet null", `{"packet":null}`, fault.InvalidPacket},
		{"packet a long list", `{"packet":` + list(5000) + `}`, fault.InvalidPacket},
		{"packet too deep", `{"packet":` + strings.Repeat("[", 100) + "x" + strings.Repeat("]", 100) + `}`, fault.InvalidPacket},
		{"to itself", `{"packet":` + with("to", from) + `}`, fault.InvalidPacket},
		{"long encryption", `{"packet":` + strings.Replace(string(p), `"encryption":{`, `"encryption":`+crowd(100, ""), 1) + `}`, fault.InvalidPacket},
		{"encryption a list", `{"packet":` + with("encryption", wire.NewArray()) + `}`, fault.InvalidPacket},
		{"Base64 with a line break", `{"packet":` + strings.Replace(string(p), `"payload":"`, `"payload":"\n`, 1) + `}`, fault.InvalidPacket},
	} {
		body := strings.ReplaceAll(c.body, `,}`, `}`)
		if c.name == "long encryption" {
			body = strings.Replace(c.body, `,}"kem`, `,"kem`, 1)
		}
		_, err := relayapi.DecodeSend([]byte(body))
		if fault.CodeOf(err) != c.code || c.code == "" && err != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		sendAgrees(t, []byte(body))
	}
}

// TestDecodeSendShortWayAgrees changes, doubles and drops bytes of a canonical
// body.
func TestDecodeSendShortWayAgrees(t *testing.T) {
	p, permit := sendParts(t)
	body := relayapi.SendBody(p, permit)
	accepted := 0
	for i := 0; i < len(body); i++ {
		if inLongValue(body, i) && i%307 != 0 {
			continue
		}
		for _, insert := range []string{"", "0", "\"", "\\", "\x7f", "}"} {
			if sendAgrees(t, append(append(bytes.Clone(body[:i]), insert...), body[i+1:]...)) {
				accepted++
			}
		}
	}
	if accepted == 0 {
		t.Error("no changed body was accepted: the test compares nothing")
	}
}

func inLongValue(body []byte, i int) bool {
	return i > 12 && i+12 < len(body) && !bytes.ContainsAny(body[i-12:i+12], `"`)
}

// TestDecodeSendMemory: no body costs more than a small multiple of its size,
// whatever it holds. A tree of the first one takes 45 times its size.
func TestDecodeSendMemory(t *testing.T) {
	p, permit := sendParts(t)
	fill := func(n int, element func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(element(i))
			b.WriteByte(',')
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	const size = 1 << 19
	zeros := "[" + fill(size, func(int) string { return "0" }) + "]"
	members := "{" + fill(size, func(i int) string { return fmt.Sprintf(`"%x":0`, i) }) + "}"
	objects := "{" + fill(size, func(i int) string { return fmt.Sprintf(`"%x":{"a":{"b":1,"c":2}}`, i) }) + "}"
	escapes := "{" + fill(size, func(i int) string { return fmt.Sprintf(`"\t%x":"\n"`, i) }) + "}"
	for name, body := range map[string]string{
		"packet of zeros":    `{"packet":` + zeros + `}`,
		"packet of members":  `{"packet":` + members + `}`,
		"packet of objects":  `{"packet":` + objects + `}`,
		"packet of escapes":  `{"packet":` + escapes + `}`,
		"permit of zeros":    `{"packet":` + string(p) + `,"permit":` + zeros + `}`,
		"permit of members":  `{"packet":` + string(p) + `,"permit":` + members + `}`,
		"body of members":    members,
		"body of objects":    objects,
		"zeros that end":     `{"packet":` + zeros[:len(zeros)-1],
		"members that end":   `{"packet":` + members[:len(members)-1],
		"one long string":    `{"packet":"` + strings.Repeat(`\u0001`, size/6) + `"}`,
		"spaces, and valid":  `{"packet":` + string(p) + strings.Repeat(" ", size-2*len(p)) + `,"permit":` + string(permit) + `}`,
		"brackets":           `{"packet":` + strings.Repeat("[", size),
		"lists in one":       `{"packet":[` + fill(size, func(int) string { return "[]" }) + `]}`,
		"permit of a string": `{"packet":` + string(p) + `,"permit":"` + strings.Repeat("a", size-2*len(p)) + `"}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = relayapi.DecodeSend([]byte(body))
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(body))
		if got > 10 {
			t.Errorf("%s: %.1f bytes for each byte of the body", name, got)
		}
	}
}

// FuzzDecodeSend: every body is decoded as by way of the whole tree.
func FuzzDecodeSend(f *testing.F) {
	p, permit := sendParts(f)
	f.Add(relayapi.SendBody(p, nil))
	f.Add(relayapi.SendBody(p, permit))
	f.Add([]byte(`{"permit":` + string(permit) + `,"packet":` + string(p) + `}`))
	f.Add([]byte(`{"packet":` + string(p) + `, "permit":[1,{"a":{"b":{"c":[]}}}]}`))
	f.Add([]byte(`{"packet":{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"ace":"1"}}`))
	f.Add([]byte(`{"packet":{"ace":"2"},"permit":` + strings.Repeat("[", 40) + `}`))
	f.Fuzz(func(t *testing.T, body []byte) { sendAgrees(t, body) })
}
