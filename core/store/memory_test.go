package store_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// TestMemory: a store without a path keeps what was committed while it is open,
// makes no file, and shares nothing with another.
func TestMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	a, err := store.Open(t.Context(), "", suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.Open(t.Context(), "", suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	contact := store.Contact{Peer: "p", State: "admitted", Since: 1}
	if err := a.Update(t.Context(), func(tx *store.Tx) error { return tx.SetContact(contact) }); err != nil {
		t.Fatal(err)
	}
	// The end of a caller's patience ends its transaction, not the store.
	ctx, cancel := context.WithCancel(t.Context())
	err = a.Update(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteContact("p"); err != nil {
			return err
		}
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := a.Update(ctx, func(tx *store.Tx) error { return tx.DeleteContact("p") }); !errors.Is(err, context.Canceled) {
		t.Errorf("begun after the end: %v", err)
	}
	for s, want := range map[*store.Store]bool{a: true, b: false} {
		if err := s.View(t.Context(), func(tx *store.Tx) error {
			got, ok, err := tx.Contact("p", 2)
			if ok != want || want && got != contact {
				t.Errorf("contact %v %+v, want %v", ok, got, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}

	release, err := a.LockReceive("x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.LockReceive("x", 1); !errors.Is(err, fault.LockBusy) {
		t.Errorf("second lock: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if release, err = a.LockReceive("x", 1); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if err := errors.Join(release(), a.Scrub(t.Context()), a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 0 {
		t.Errorf("files %v: %v", files, err)
	}
}
