package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/ace-toolkit/ace/core"
)

// settingsInterval is how often a listener looks whether the settings of its
// identity are still those that it goes by, and whether a command still runs.
const settingsInterval = time.Second

// errSettingsChanged ends the listening with the settings of its start. It goes on
// with those that another command has made: what the old ones say would be
// published in their place at the next upkeep, a card that was closed since as
// open again (05#delivery-permits).
var errSettingsChanged = errors.New("another command has changed the settings")

// followSettings waits until the settings have changed, and then until no command
// of --exec runs: one may have changed them itself, and is not cut off for that.
func (l *listener) followSettings(ctx context.Context, s *session) error {
	tick := time.NewTicker(settingsInterval)
	defer tick.Stop()
	var seen os.FileInfo
	for changed := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if info, err := os.Stat(s.settingsPath()); err == nil && !changed && !sameFile(info, seen) {
			seen, changed = info, s.settingsChanged()
		}
		if changed && l.drained() {
			return errSettingsChanged
		}
	}
}

// sameFile reports whether a file is the one that was seen. Each change makes
// another.
func sameFile(info, seen os.FileInfo) bool {
	return seen != nil && os.SameFile(info, seen) && info.ModTime().Equal(seen.ModTime()) && info.Size() == seen.Size()
}

// drained lets no other command of --exec begin, and reports whether none runs.
func (l *listener) drained() bool {
	q := l.queue.Load()
	if q == nil {
		return true
	}
	q.Drain()
	return !q.Busy()
}

// reopen goes on with the settings as they are now.
func (l *listener) reopen(ctx context.Context, s *session) (*session, error) {
	l.tellReconnect(errSettingsChanged)
	return s.reopen(ctx)
}

// openAgain goes on with the signing key that another process has made.
func (l *listener) openAgain(ctx context.Context, s *session, why error) (*session, error) {
	s.Close()
	l.replaced = true
	l.tellReconnect(why)
	return l.app.open(ctx)
}

func (l *listener) tellReconnect(why error) {
	l.on(core.Event{Connection: &core.ConnectionEvent{State: "reconnecting", Reason: why.Error()}})
}
