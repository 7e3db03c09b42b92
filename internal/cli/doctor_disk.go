package cli

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	leastSpace = 64 << 20  // bytes below which the store cannot go on for long
	fewSpace   = 512 << 20 // bytes below which it is time to make room
	slowSync   = 100 * time.Millisecond
)

// examineDisk looks at the room beside the store, and whether the disk takes what
// is written there.
func (c *checkup) examineDisk(context.Context) {
	dir := c.dataDir()
	if _, err := os.Stat(dir); err != nil {
		return
	}
	c.examineSpace("disk_space", "beside the store", dir)
	if data := c.io.env("ACE_RELAY_DATA"); data != "" {
		c.examineSpace("relay_disk_space", "beside the store of the relay", data)
	}
	began := time.Now()
	err := probeSync(dir)
	took := time.Since(began).Round(time.Millisecond)
	switch {
	case err != nil:
		c.failed(severityProblem, "disk_sync", err).advise("see whether the disk of %s is full or read-only", dir)
	case took > slowSync:
		c.add(severityNotice, "disk_sync", "The disk took %s for one small file: each message waits for it.", took)
	default:
		c.ok("disk_sync", "The disk keeps what is written, within %s.", max(took, time.Millisecond))
	}
}

func (c *checkup) examineSpace(code, where, dir string) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		c.failed(severityProblem, code, err)
		return
	}
	free := uint64(max(0, st.Bavail)) * uint64(st.Bsize) // below 0 on some systems when only root has room
	severity := severityOK
	switch {
	case free < leastSpace:
		severity = severityProblem
	case free < fewSpace:
		severity = severityWarning
	}
	f := c.add(severity, code, "%d MiB are free %s, on the disk of %s.", free>>20, where, dir)
	if severity != severityOK {
		f.advise("make room on that disk")
	}
}

// probeSync writes a small file in a folder, brings it to the disk and removes it.
func probeSync(dir string) error {
	f, err := os.CreateTemp(dir, temporary+"probe-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
