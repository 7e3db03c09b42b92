//go:build !failpoint

package failpoint

import "time"

// Here is a place.
func Here(string) {}

// Store is called with the folder of the store before it is opened.
func Store(string) {}

// Clock returns the clock that the relay goes by.
func Clock(now func() int64) func() int64 { return now }

// Every returns the time between two sweeps.
func Every(d time.Duration) time.Duration { return d }
