package ownerfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/ownerfile"
)

// Who only looks sees who holds a lock, also one that nobody gave back, and leaves
// it as it is.
func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	look := func() (command string, held bool) {
		t.Helper()
		h, held, err := ownerfile.Held(path)
		if err != nil {
			t.Fatal(err)
		}
		if h != nil {
			command = h.Command
		}
		return command, held
	}
	if command, held := look(); command != "" || held {
		t.Errorf("no file: %q, %v", command, held)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
	lock, err := ownerfile.Acquire(path, "ace listen", 7)
	if err != nil {
		t.Fatal(err)
	}
	if command, held := look(); command != "ace listen" || !held {
		t.Errorf("held: %q, %v", command, held)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if command, held := look(); command != "" || held {
		t.Errorf("released: %q, %v", command, held)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // looking takes nothing
		if command, held := look(); command != "ace listen" || held {
			t.Errorf("left by a process that was killed: %q, %v", command, held)
		}
	}
	lock, err = ownerfile.Acquire(path, "ace pull", 8)
	if err != nil {
		t.Fatalf("somebody who looked still holds it: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}
