package relaysvc

import (
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// disk tells how much room there is on the file system of the store, and keeps
// Limits.DiskFloor free of what clients send. Below the floor a relay takes in
// nothing that grows the store and still serves what makes it smaller:
// acknowledgements, unregistering, and reading what is to be acknowledged.
type disk struct {
	path string // of the store

	mu    sync.Mutex
	taken time.Time // of what follows; guarded by mu, as that
	bytes uint64
	err   error
}

// diskFresh is how old an answer of the file system may be.
const diskFresh = time.Second

// free returns the bytes that are free for this process. It fails where the
// system does not tell, and asks it at most once a second.
func (d *disk) free() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken.IsZero() || time.Since(d.taken) >= diskFresh {
		d.bytes, d.err = diskFree(d.path)
		d.taken = time.Now()
	}
	return d.bytes, d.err
}

// below reports whether less than floor bytes are free. A disk that does not
// tell is left to the store to judge.
func (d *disk) below(floor int64) bool {
	free, err := d.free()
	return err == nil && free < uint64(max(0, floor))
}

// storing is a route that stores what it is sent. Before the store is exhausted
// the relay refuses it, as a last resort (07#send), whatever is in it: the body
// is not even read. Code: rate_limited.
func storing(next route) route {
	return func(s *Server, w http.ResponseWriter, r *request) error {
		if s.disk.below(s.limits().DiskFloor) {
			return fault.New(relayapi.RateLimited, "the relay has no room left")
		}
		return next(s, w, r)
	}
}

// readOnlyFlag marks a file system that nobody can write to, as the kernel
// makes one of a disk with errors. It is the same on every system.
const readOnlyFlag = 1

// diskFree asks for the file system that a file is on. Nothing fits on one that
// is read-only.
func diskFree(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		return 0, err
	}
	if st.Flags&readOnlyFlag != 0 {
		return 0, nil
	}
	return uint64(max(0, st.Bavail)) * uint64(st.Bsize), nil // below 0 on some systems when only root has room
}
