package cli

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/ace-toolkit/ace/core/fault"
)

// readArg reads the file an argument names, or standard input for "-". Text of
// more than limit bytes cannot be the object that is wanted and fails with the
// code of a malformed one.
func (a *app) readArg(name string, limit int64, malformed fault.Code) ([]byte, error) {
	in := a.io.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if errors.Is(err, syscall.EISDIR) {
		return nil, usagef("%s is a folder", name)
	}
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if int64(len(text)) > limit {
		return nil, fault.New(malformed, "%s is larger than %d bytes", name, limit)
	}
	return text, nil
}
