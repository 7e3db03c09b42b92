//go:build !failpoint

package failpoint

import "time"

// Here is a place.
func Here(string) {}

// Store is called with the folder of the store before it is opened.
func Store(string) {}

// Clock returns the clock that the program goes by.
func Clock(now func() int64) func() int64 { return now }

// Sync is asked before each fsync of the packet log. Its error is what comes of
// it instead.
func Sync() error { return nil }

// Segment returns the length of the packet log's segments, in bytes.
func Segment(size int64) int64 { return size }

// Every returns the time between two sweeps.
func Every(d time.Duration) time.Duration { return d }

// Second returns the length of a second that a listener waits before it connects
// again, or fetches again what it could not settle.
func Second() time.Duration { return time.Second }

// Silence returns how long a relay may be silent.
func Silence(d time.Duration) time.Duration { return d }
