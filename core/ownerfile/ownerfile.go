// Package ownerfile keeps files that only their owner can read: folders of
// mode 0700 and files of mode 0600, checked whenever they are opened, written
// so that a crash leaves the old content or the new one, and locked against a
// second process.
//
// Every failure is storage_failed, except that of a lock that another process
// holds, which is lock_busy.
package ownerfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ace-toolkit/ace/core/fault"
)

// EnsureDir is [MakeDir], then it checks the folder as [CheckDir] does.
func EnsureDir(dir string) error {
	if err := MakeDir(dir); err != nil {
		return err
	}
	return CheckDir(dir)
}

// MakeDir makes the folder with its missing parents, mode 0700, durably. One
// that is there stays as it is.
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return SyncDir(parent)
}

// CheckDir refuses a folder that others can enter or that another user owns.
// The error says which chmod mends it.
func CheckDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	if !info.IsDir() {
		return fault.New(fault.StorageFailed, "%s is not a folder", dir)
	}
	return checkInfo(info, dir, "0700")
}

// CheckFile refuses a file that others can read or that another user owns. A
// file that does not exist passes.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return checkInfo(info, path, "0600")
}

// checkOpen is CheckFile for a file that is open, so that no other can take its
// place between.
func checkOpen(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return checkInfo(info, f.Name(), "0600")
}

func checkInfo(info fs.FileInfo, path, mode string) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.StorageFailed, "%s is open to other users (mode %04o): run chmod %s %q", path, info.Mode().Perm(), mode, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fault.New(fault.StorageFailed, "%s belongs to user %d, not to you", path, st.Uid)
	}
	return nil
}

// Read returns the content of a file of at most limit bytes, after checking
// the owner and mode of the file it opened.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	defer f.Close()
	if err := checkOpen(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if int64(len(data)) > limit {
		return nil, fault.New(fault.StorageFailed, "%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

// Write replaces or makes the file, mode 0600, atomically and durably: the
// data reaches the disk before the name does, and the name before Write
// returns.
func Write(path string, data []byte) error {
	return write(path, content(data), os.Rename)
}

// Create is Write for a file that must not exist yet.
func Create(path string, data []byte) error {
	return write(path, content(data), publishNew)
}

// CreateWith is [Create] for a content that fill writes into the file. An error
// of fill that has a code is returned as it is, and nothing is made.
func CreateWith(path string, fill func(*os.File) error) error {
	return write(path, fill, publishNew)
}

func content(data []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
}

// publishNew gives a file its name unless there is one of that name. A hard link,
// unlike a rename, never replaces a file; where the disk knows none, as those of
// sticks often do, an empty file holds the name for the rename.
func publishNew(temp, path string) error {
	err := os.Link(temp, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.EOPNOTSUPP) {
		return reserve(temp, path)
	}
	return err
}

func reserve(temp, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func write(path string, fill func(*os.File) error, publish func(temp, path string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600, whatever the umask
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer os.Remove(f.Name()) // after a rename there is nothing left to remove
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = publish(f.Name(), path)
	}
	switch {
	case fault.CodeOf(err) != "":
		return err
	case err != nil:
		return fault.Wrap(fault.StorageFailed, err)
	}
	return SyncDir(dir)
}

// Append opens a regular file to add to it, making it, mode 0600, when there is
// none, after checking owner and mode of what it opened.
func Append(path string) (*os.File, error) {
	// Without O_NONBLOCK a pipe would be waited for before it can be refused.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = fault.Wrap(fault.StorageFailed, err)
	case !info.Mode().IsRegular():
		err = fault.New(fault.StorageFailed, "%s is no regular file", path)
	default:
		err = checkInfo(info, path, "0600")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Erase overwrites a file with zeros, durably, and removes it. One that is not
// there is erased already. A disk or a file system that writes elsewhere keeps
// the old content for some time all the same.
func Erase(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(make([]byte, info.Size()))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Remove(path)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer d.Close()
	return fault.Wrap(fault.StorageFailed, d.Sync())
}
