package ownerfile

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/ace-toolkit/ace/core/fault"
)

// Held tells who holds the lock of a file, for somebody who only looks. A holder
// without held has ended without releasing it, as one that was killed: the lock is
// free. Who holds it has not written its name yet when there is held and no
// holder. The file need not exist. Code: storage_failed.
func Held(path string) (holder *fault.Holder, held bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fault.Wrap(fault.StorageFailed, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return nil, false, fault.Wrap(fault.StorageFailed, err)
	}
	if len(data) == 0 {
		return nil, false, nil // released; taking it to see would be in the way of others
	}
	var h fault.Holder
	if json.Unmarshal(data, &h) == nil {
		holder = &h
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return holder, true, nil
	}
	return holder, false, fault.Wrap(fault.StorageFailed, err) // closing the file gives the lock back
}
