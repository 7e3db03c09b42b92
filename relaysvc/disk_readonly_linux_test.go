package relaysvc

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestReadOnlyDisk asks for the room on a file system that nobody can write to.
func TestReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "relay.db")
	if free, err := diskFree(path); err != nil || free == 0 {
		t.Fatalf("%d bytes free: %v", free, err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if free, err := diskFree(path); err != nil || free != 0 {
		t.Errorf("%d bytes free where nobody can write: %v", free, err)
	}
}
