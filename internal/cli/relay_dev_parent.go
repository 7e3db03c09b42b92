package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"
)

// parentInterval is how often a relay looks whether its parent is still there.
// There is no way to be told that works on every system.
const parentInterval = 250 * time.Millisecond

// endWithParent ends ctx when the process that started this one has ended. It
// also ends when standard input does, where that is a pipe that nothing else
// reads: a parent that was killed closes it at once.
func (d *devRun) endWithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		ticker := time.NewTicker(parentInterval)
		defer ticker.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		cancel()
	}()
	if o := d.o; !o.exec && o.seed != "-" && isPipe(d.io.In) {
		go func() {
			// The read is left to end with the process.
			_, _ = io.Copy(io.Discard, d.io.In)
			cancel()
		}()
	}
	return ctx, cancel
}

// isPipe reports whether the other end of r is a process. The standard input of
// a job in the background is none: it ends at once.
func isPipe(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}
