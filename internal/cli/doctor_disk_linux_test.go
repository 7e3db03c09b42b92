package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of the given size.
func smallDisk(t *testing.T, path, size string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o700))
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
}

func remount(t *testing.T, path string, flags uintptr, data string) {
	t.Helper()
	must(t, syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_REMOUNT|flags, data))
}

// A disk that is nearly full, one with little room, and one that takes no more
// writes.
func TestDoctorOfDisks(t *testing.T) {
	s := newStage(t)
	disk := filepath.Join(s.dir, ".local/share/ace")
	smallDisk(t, disk, "1g")
	s.must("init", "--yes", "--no-publish")
	large := func(s *stage) { remount(s.t, disk, 0, "size=1g") }
	s.suffer(illness{code: "disk_space", severity: severityProblem, mend: large, make: func(s *stage) { remount(s.t, disk, 0, "size=32m") }})
	s.suffer(illness{code: "disk_space", severity: severityWarning, mend: large, make: func(s *stage) { remount(s.t, disk, 0, "size=256m") }})
	s.suffer(illness{code: "disk_sync", severity: severityProblem, mend: large, make: func(s *stage) { remount(s.t, disk, syscall.MS_RDONLY, "") }})
	left, err := filepath.Glob(filepath.Join(disk, temporary+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDoctorOfTheDiskOfALocalRelay(t *testing.T) {
	s := newStage(t)
	disk := filepath.Join(s.dir, "relay")
	smallDisk(t, disk, "1g")
	s.relay()
	s.must("init", "--yes", "--relay", "dev")
	s.suffer(illness{
		code: "relay_disk_space", severity: severityProblem, make: func(s *stage) { remount(s.t, disk, 0, "size=32m") },
		mend: func(s *stage) { remount(s.t, disk, 0, "size=1g") },
	})
	// One of which the environment says where it is.
	s = newStage(t)
	s.must("init", "--yes", "--no-publish")
	s.env["ACE_RELAY_DATA"] = disk
	if s.examine().has("relay_disk_space", severityOK) == nil {
		t.Error("the folder of ACE_RELAY_DATA was not looked at")
	}
}
