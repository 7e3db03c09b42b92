package core

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

const (
	// upkeepInterval is the longest time between two passes, in seconds
	// (05#delivery-permits, Upkeep). From upkeepMargin to upkeepJitter of it is left
	// out by chance, so that endpoints started together do not ask their relay
	// together, and that a pass is not late for Keep having just looked.
	upkeepInterval = 3600
	upkeepMargin   = 60
	upkeepJitter   = 600
	// upkeepRetry is when a pass is repeated in which something failed that may
	// pass. It doubles with each pass of that kind in a row.
	upkeepRetry = 60
	// keepInterval is how often Keep looks at what is due. It looks at the clock,
	// since timers stand still while a machine sleeps.
	keepInterval = 15 * time.Second
)

// KeepOptions say what Keep does beside the attempts that fall due.
type KeepOptions struct {
	NoUpkeep bool               // no upkeep: somebody else sees to it
	OnUpkeep func(UpkeepReport) // is told of each pass; nil: nobody
	// PutOff is asked before each pass and puts it off while it says so: what the
	// configuration says of the identity is no longer so, and publishing it would
	// undo what somebody else has published. nil: never.
	PutOff func() bool
}

// Keep makes the attempts of the Outbox that fall due, and runs upkeep at once,
// then at least every 3600 seconds, and when the relay turned out to know nothing
// of the identity, until ctx ends. What fails is tried again.
func (e *Endpoint) Keep(ctx context.Context, o KeepOptions) {
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	var next int64
	failed := 0 // passes in a row with a failure that may pass
	for ctx.Err() == nil {
		now := e.config.Clock()
		switch {
		// A clock set back delays nothing.
		case o.NoUpkeep || o.PutOff != nil && o.PutOff() || now < next && next <= now+upkeepInterval && !e.forgotten.Swap(false):
			_, _ = e.RetryDue(ctx) // a failure is in the entry and tried again
		default:
			report, err := e.Upkeep(ctx)
			if err == nil && o.OnUpkeep != nil {
				o.OnUpkeep(report)
			}
			failed++
			if err == nil && !report.mayPass() {
				failed = 0
			}
			next = now + upkeepDelay(failed, jitter())
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// mayPass reports whether something failed that need not fail again.
func (r UpkeepReport) mayPass() bool {
	for _, f := range r.Failures {
		if fault.CodeOf(f.Err).Retryable() {
			return true
		}
	}
	return false
}

// upkeepDelay is the time until the next pass, after the given number of passes
// in a row with a failure that may pass.
func upkeepDelay(failed int, jitter int64) int64 {
	most := upkeepInterval - jitter
	if failed == 0 {
		return most
	}
	return min(upkeepRetry<<min(failed-1, 6), most)
}

// jitter returns a number in [upkeepMargin, upkeepJitter).
func jitter() int64 {
	return upkeepMargin + int64(binary.BigEndian.Uint32(suite.RandomBytes(4)))%(upkeepJitter-upkeepMargin)
}
