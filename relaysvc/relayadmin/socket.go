package relayadmin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// maxSocketPath is what every system takes as the path of a socket, in bytes.
const maxSocketPath = 103

// CheckPath refuses a path that no socket can have. Code: invalid_argument.
func CheckPath(path string) error {
	if len(path) > maxSocketPath {
		return fault.New(fault.InvalidArgument, "the path of the admin socket has %d bytes, more than %d: %s", len(path), maxSocketPath, path)
	}
	return nil
}

// Listen makes the socket, mode 0600, in a folder of mode 0700. It takes the
// place of one that an ended relay left, never of one that is served. Codes:
// invalid_argument, lock_busy, storage_failed.
func Listen(path string) (net.Listener, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	return ln, nil
}

// removeSocket removes a socket that nobody serves, and nothing else that has
// its name.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.Wrap(fault.StorageFailed, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fault.New(fault.StorageFailed, "%s is there and no socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return fault.New(fault.LockBusy, "another relay serves the admin socket %s", path)
	}
	return fault.Wrap(fault.StorageFailed, os.Remove(path))
}
