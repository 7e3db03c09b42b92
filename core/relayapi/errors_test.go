package relayapi_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestStatuses repeats the table of 07#errors by status.
func TestStatuses(t *testing.T) {
	want := map[int]string{
		400: "invalid_argument invalid_packet unsupported_version invalid_registration invalid_kel stale_timestamp",
		401: "invalid_signature invalid_authorization stale_seq stale_peer_binding",
		403: "not_registered not_permitted",
		404: "unknown_peer not_found",
		409: "replay identity_conflict future_seq kel_conflict stale_descriptor handle_taken stale_revision limit_exceeded",
		413: "payload_too_large",
		429: "rate_limited recipient_inbox_full",
		500: "internal_error",
	}
	listed := 0
	for status, codes := range want {
		for code := range strings.FieldsSeq(codes) {
			listed++
			if got := relayapi.HTTPStatus(fault.Code(code)); got != status {
				t.Errorf("%s: %d, want %d", code, got, status)
			}
			body := relayapi.ErrorBody(fault.Code(code), "")
			if got, ok := relayapi.ParseError(body); !ok || got != code {
				t.Errorf("%s: %s", code, body)
			}
		}
	}
	if got := len(relayapi.Statuses()); got != listed {
		t.Errorf("the table has %d codes, want %d", got, listed)
	}
}

func TestErrorBody(t *testing.T) {
	if got := string(relayapi.ErrorBody(relayapi.Replay, `a "b"`)); got != `{"error":"replay","message":"a \"b\""}` {
		t.Error(got)
	}
	// A code of the relay's own inside is nobody's business.
	if got := string(relayapi.ErrorBody(fault.StorageFailed, "")); got != `{"error":"internal_error"}` {
		t.Error(got)
	}
	if got := relayapi.HTTPStatus(fault.StorageFailed); got != 500 {
		t.Error(got)
	}
}

func FuzzErrorBody(f *testing.F) {
	for _, s := range []string{`{"error":"replay"}`, `{"error":1}`, `{"error":"a","error":"b"}`, `[`, "", strings.Repeat("[", 40)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, ok := relayapi.ParseError(body)
		if !ok {
			if text != "" {
				t.Fatal("a text without an error")
			}
			return
		}
		v, err := wire.Parse(body, wire.MaxResponseDepth)
		must(t, err)
		if member, _ := v.Get("error"); !member.Equal(wire.NewString(text)) {
			t.Fatalf("%q is not the member", text)
		}
	})
}
