package handler

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// wholeInput returns what a run reads. It is whole in memory before the run begins:
// through a pipe, a run whose parent dies would read the end of a message that has
// none, and handle a part of it. Where there is no such memory it is a pipe.
func wholeInput(input []byte) io.Reader {
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return bytes.NewReader(input)
	}
	f := os.NewFile(uintptr(fd), "message")
	if _, err := f.Write(input); err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			return f
		}
	}
	f.Close()
	return bytes.NewReader(input)
}
