package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
)

func TestCodeSurvivesWrapping(t *testing.T) {
	inner := fault.Wrap(fault.StorageFailed, io.ErrUnexpectedEOF)
	err := fmt.Errorf("open store: %w", inner)
	if got := fault.CodeOf(err); got != fault.StorageFailed {
		t.Fatalf("CodeOf = %q", got)
	}
	if !errors.Is(err, fault.StorageFailed) || errors.Is(err, fault.LockBusy) {
		t.Fatal("errors.Is does not compare codes")
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal("the cause is lost")
	}
}

func TestOutermostCodeWins(t *testing.T) {
	err := fault.Wrapf(fault.InvalidAuthorization, fault.New(fault.InvalidKEL, "event 1: prev"), "source")
	if got := fault.CodeOf(err); got != fault.InvalidAuthorization {
		t.Fatalf("CodeOf = %q", got)
	}
	if got := err.Error(); got != "source: event 1: prev" {
		t.Fatalf("Error = %q", got)
	}
}

func TestWrapNil(t *testing.T) {
	if fault.Wrap(fault.InvalidBody, nil) != nil || fault.Wrapf(fault.InvalidBody, nil, "x") != nil {
		t.Fatal("a nil error became a failure")
	}
}

// TestCategories lists every code of 06#error-codes with its category.
func TestCategories(t *testing.T) {
	want := map[fault.Category][]string{
		fault.Permanent: {"invalid_argument", "invalid_packet", "unsupported_version", "wrong_recipient", "invalid_signature", "invalid_authorization", "stale_timestamp", "stale_peer_binding", "decryption_failed", "unknown_prekey", "unsupported_schema", "invalid_body", "replay_horizon", "invalid_kel", "kel_conflict", "unknown_peer", "not_registered", "not_permitted", "relay_rejected", "blocked_address", "delivery_rejected", "expired", "stale_descriptor"},
		fault.Transient: {"relay_unavailable", "relay_protocol_error", "fetch_failed"},
		fault.Local:     {"storage_failed", "identity_unavailable", "lock_busy", "receiver_capacity", "thread_busy"},
	}
	for cat, codes := range want {
		for _, c := range codes {
			if got := fault.Code(c).Category(); got != cat {
				t.Errorf("%s: category %s, want %s", c, got, cat)
			}
			if got := fault.Code(c).Retryable(); got != (cat != fault.Permanent) {
				t.Errorf("%s: retryable %v", c, got)
			}
		}
	}
	if fault.CodeOf(io.EOF) != "" {
		t.Error("a plain error has a code")
	}
}
