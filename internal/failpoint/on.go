//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// point is the one place of this process at which something happens.
type point struct {
	name string
	nth  int64
	seen atomic.Int64
}

var armed = sync.OnceValue(func() *point {
	name, nth, _ := strings.Cut(os.Getenv("ACE_FAILPOINT"), ":")
	p := &point{name: name}
	if name != "" {
		p.nth = number(nth)
	}
	return p
})

// reached counts a pass of the place and reports whether it is the one.
func (p *point) reached(name string) bool { return p.name == name && p.seen.Add(1) == p.nth }

// Here is a place. It does not return when the process ends at it.
func Here(name string) {
	if armed().reached(name) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// Store is called with the folder of the store before it is opened.
func Store(dir string) {
	p := armed()
	if p.name != SyncError {
		return
	}
	faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
		if op.Kind == faultdisk.Sync && p.reached(SyncError) {
			return faultdisk.FsyncFailed
		}
		return faultdisk.OK
	})
}

// Sync is asked before each fsync of the packet log. Its error is what comes of
// it instead.
func Sync() error {
	p := armed()
	if p.reached(SyncError) || p.reached(PacketSyncError) {
		return errors.New("failpoint: the disk fails")
	}
	return nil
}

// Segment returns the length of the packet log's segments, in bytes.
func Segment(size int64) int64 {
	if text, ok := os.LookupEnv("ACE_FAILPOINT_SEGMENT"); ok {
		return number(text)
	}
	return size
}

// Clock returns the clock that the program goes by.
func Clock(now func() int64) func() int64 {
	ahead := int64(0)
	if text, ok := os.LookupEnv("ACE_FAILPOINT_CLOCK"); ok {
		ahead = number(text)
	}
	return func() int64 { return now() + ahead }
}

// Every returns the time between two sweeps.
func Every(d time.Duration) time.Duration { return duration("ACE_FAILPOINT_SWEEP", d) }

// Second returns the length of a second that a listener waits before it connects
// again, or fetches again what it could not settle.
func Second() time.Duration { return duration("ACE_FAILPOINT_SECOND", time.Second) }

// Silence returns how long a relay may be silent.
func Silence(d time.Duration) time.Duration { return duration("ACE_FAILPOINT_SILENCE", d) }

func duration(name string, otherwise time.Duration) time.Duration {
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("failpoint: %q is no number", text))
	}
	return n
}
