package cli

import (
	"io"
	"os"

	"github.com/ace-toolkit/ace/core/fault"
)

// readArg reads the file an argument names, or standard input for "-", of at
// most limit bytes.
func (a *app) readArg(name string, limit int64) ([]byte, error) {
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
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if int64(len(text)) > limit {
		return nil, usagef("%s is larger than %d bytes", name, limit)
	}
	return text, nil
}
