package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/ace-toolkit/ace/relaysvc"
)

const (
	activityInterval = time.Second      // between looks
	activityLines    = 10 * time.Second // between lines where none can be redrawn
)

// showActivity tells on standard error what the relay does, when that has
// changed, until ctx ends: on a terminal in one line that is drawn again, else
// as a line now and then. A command of --exec has standard error to itself, and
// a relay in the background of a terminal leaves it to the foreground.
func (d *devRun) showActivity(ctx context.Context, server *relaysvc.Server) {
	if d.flags.quiet || d.flags.json || d.o.exec {
		return
	}
	ticker := time.NewTicker(activityInterval)
	defer ticker.Stop()
	var shown relaysvc.Activity
	var at time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := server.Activity(ctx)
		if err != nil || now == shown || !d.io.ErrTTY && time.Since(at) < activityLines || d.io.ErrTTY && !inForeground() {
			continue
		}
		shown, at = now, time.Now()
		d.drawActivity(now)
	}
}

func (d *devRun) drawActivity(now relaysvc.Activity) {
	text := fmt.Sprintf("%s, %s, %s, %d queued", count(now.Sends, "send"), count(now.Streams, "stream"), count(now.Agents, "agent"), now.Queued)
	if d.io.ErrTTY {
		// The cursor goes back, so that whatever comes next replaces the line.
		fmt.Fprintf(d.io.Err, "\r%s\x1b[K\r", text)
		return
	}
	fmt.Fprintln(d.io.Err, text)
}
