package relayapi_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzResponse feeds a client's decoders of what a relay answers: each refuses
// with the one code there is, or what it returns obeys the bounds.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		`{"cards":[{"kel":[],"card":{}}],"cursor":"next"}`,
		`{"cards":[` + nested(33) + `],"cursor":null}`,
		`{"packet":{"ace":"1"}}`,
		`{"ok":true,"status":"rotated"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		inBounds := func(err error, objects ...wire.Value) {
			if err != nil {
				wantCode(t, err, fault.RelayProtocolError)
				return
			}
			for _, v := range objects {
				if !v.WithinDepth(wire.MaxJSONDepth) {
					t.Fatal("an object is too deep")
				}
			}
		}
		page, err := relayapi.ParseDirectoryPage(body)
		inBounds(err, page.Cards...)
		v, err := relayapi.ParseLookup(body)
		inBounds(err, v)
		entry, err := relayapi.ParsePacketEvent("1-0", body)
		inBounds(err, entry.Packet)
		status, err := relayapi.ParseOKStatus(body)
		inBounds(err)
		if err == nil && relayapi.ParseOK(relayapi.OKStatus(status)) != nil {
			t.Fatalf("status %q", status)
		}
	})
}

// FuzzBody feeds the decoders of a relay's request bodies: what they accept can
// be written again and says the same.
func FuzzBody(f *testing.F) {
	caller := "ace:sha256:" + string(bytes.Repeat([]byte{'a'}, 64))
	f.Add([]byte(`{"packet":{"ace":"1"},"permit":null}`))
	f.Add(relayapi.Block{Peer: "ace:sha256:" + string(bytes.Repeat([]byte{'b'}, 64)), Blocked: true, Revision: 7}.Body())
	f.Add(relayapi.Wake{Gateway: relay, Token: "0123456789012345678901"}.Body())
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := relayapi.ParseBody(data)
		if err != nil {
			wantCode(t, err, fault.InvalidArgument)
			return
		}
		if send, err := relayapi.ParseSend(body); err != nil {
			wantCode(t, err, fault.InvalidArgument)
		} else {
			var permit []byte
			if send.HasPermit {
				permit = send.Permit.Canonical()
			}
			sameBody(t, body, relayapi.SendBody(send.Packet.Canonical(), permit))
		}
		if block, err := relayapi.ParseBlock(body, caller); err != nil {
			wantCode(t, err, fault.InvalidArgument)
		} else {
			sameBody(t, body, block.Body())
		}
		if wake, err := relayapi.ParseWake(body, wire.Production); err != nil {
			wantCode(t, err, fault.InvalidArgument)
		} else {
			sameBody(t, body, wake.Body())
		}
	})
}

func sameBody(t *testing.T, body wire.Value, written []byte) {
	t.Helper()
	if !bytes.Equal(body.Canonical(), written) {
		t.Fatalf("%s was written as %s", body.Canonical(), written)
	}
}
