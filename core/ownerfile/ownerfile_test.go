package ownerfile_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

func TestWriteReplacesAndKeepsOwnerOnly(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "two, longer"} {
		if err := ownerfile.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := ownerfile.Read(path, 100)
		if err != nil || string(got) != text {
			t.Fatalf("Read = %q, %v", got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

func TestCreateNeverReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := ownerfile.Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	err := ownerfile.Create(path, []byte("two"))
	if !errors.Is(err, fault.StorageFailed) || !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second Create: %v", err)
	}
	if got, _ := ownerfile.Read(path, 100); string(got) != "one" {
		t.Fatalf("content is now %q", got)
	}
}

func TestRefusesWhatOthersCanRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, readErr := ownerfile.Read(path, 100)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, lockErr := ownerfile.Acquire(path, "test", 1)
	for name, err := range map[string]error{"Read": readErr, "Acquire": lockErr, "CheckFile": ownerfile.CheckFile(path), "CheckDir": ownerfile.CheckDir(dir)} {
		if !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), "chmod 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := ownerfile.Write(path, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if _, err := ownerfile.Read(path, 5); err != nil {
		t.Error(err)
	}
	if _, err := ownerfile.Read(path, 4); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("a larger file was read: %v", err)
	}
}

// TestLockAcrossProcesses runs this test binary again as the second process.
func TestLockAcrossProcesses(t *testing.T) {
	if path := os.Getenv("OWNERFILE_TEST_LOCK"); path != "" {
		_, err := ownerfile.Acquire(path, "second", 2)
		var e *fault.Error
		if errors.As(err, &e) && e.Code == fault.LockBusy {
			os.Stdout.WriteString("busy: " + e.Msg)
		}
		os.Exit(0)
	}
	path := filepath.Join(t.TempDir(), "lock")
	l, err := ownerfile.Acquire(path, "ace listen", 1760140800)
	if err != nil {
		t.Fatal(err)
	}
	second := func() string {
		cmd := exec.Command(os.Args[0], "-test.run", "TestLockAcrossProcesses")
		cmd.Env = append(os.Environ(), "OWNERFILE_TEST_LOCK="+path)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := second(); !strings.Contains(out, `("ace listen") since 2025-10-11T00:00:00Z`) {
		t.Errorf("while held: %q", out)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if out := second(); strings.Contains(out, "busy") {
		t.Errorf("after release: %q", out)
	}
}

// Without hard links a new file gets its name another way, and still replaces
// none.
func TestReserveNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for i, want := range []error{nil, fs.ErrExist} {
		temp := filepath.Join(dir, "temp")
		if err := os.WriteFile(temp, []byte{byte('0' + i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ownerfile.Reserve(temp, path); !errors.Is(err, want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got, err := ownerfile.Read(path, 100); string(got) != "0" {
		t.Errorf("content %q, %v", got, err)
	}
}

func TestCreateWithLeavesNothingOfAFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	err := ownerfile.CreateWith(path, func(f *os.File) error {
		if _, err := f.WriteString("half"); err != nil {
			return err
		}
		return fault.New(fault.InvalidKEL, "no more")
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, fault.InvalidKEL) || len(left) != 0 {
		t.Errorf("%v, left behind %v", err, left)
	}
	if err := ownerfile.CreateWith(path, func(f *os.File) error { _, err := f.WriteString("whole"); return err }); err != nil {
		t.Fatal(err)
	}
	if got, err := ownerfile.Read(path, 100); string(got) != "whole" {
		t.Errorf("content %q, %v", got, err)
	}
}

// TestAppend: what is added to is a file of the owner's alone, and nothing else.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		f, err := ownerfile.Append(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("line\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	info, err := os.Stat(path)
	if text, _ := os.ReadFile(path); err != nil || info.Mode().Perm() != 0o600 || string(text) != "line\nline\n" {
		t.Errorf("%v: %q, %v", info.Mode(), text, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, pipe, filepath.Dir(path), filepath.Join(path, "x")} {
		if _, err := ownerfile.Append(bad); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
