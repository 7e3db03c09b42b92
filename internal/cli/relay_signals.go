package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

// notifyReload returns the signals of those kinds, which change a relay while it
// runs, until stop is called.
func notifyReload(kinds ...os.Signal) (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, kinds...)
	return c, func() { signal.Stop(c) }
}

// relayReload is a relay that runs, with what its configuration was when it
// started and is now.
type relayReload struct {
	app              *app
	settings         *relaySettings
	server           *relaysvc.Server
	started, current *relayconf.Loaded
	level            *slog.LevelVar
	usual            slog.Level // of the log when nobody asked for another
	log              *slog.Logger
}

// subscribe returns the signals to watch, until stop is called. One that comes
// before that ends the process. A development relay ends with its terminal,
// which SIGHUP tells it.
func (r *relayReload) subscribe() (signals <-chan os.Signal, stop func()) {
	switch {
	case r.app.io.notifyReload == nil:
		return nil, func() {}
	case r.settings.dev:
		return r.app.io.notifyReload(syscall.SIGUSR1)
	}
	return r.app.io.notifyReload(syscall.SIGHUP, syscall.SIGUSR1)
}

// watch acts on signals until ctx ends: SIGHUP reads the configuration and the
// certificate anew, SIGUSR1 turns the level debug of the log on and off.
func (r *relayReload) watch(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s == syscall.SIGUSR1 {
				r.toggleDebug()
			} else {
				r.reload()
			}
		}
	}
}

func (r *relayReload) toggleDebug() {
	level := slog.LevelDebug
	if r.level.Level() == slog.LevelDebug {
		if level = r.usual; level == slog.LevelDebug {
			level = slog.LevelInfo
		}
	}
	r.level.Set(level)
	r.log.Log(context.Background(), level, "log level changed", "level", level.String())
}

// reload takes over what a running relay can. A configuration with a problem
// changes nothing.
func (r *relayReload) reload() {
	next, problems := r.settings.load(r.app)
	for _, p := range problems {
		r.log.Error("the configuration stays as it was", "problem", p.String())
	}
	if len(problems) > 0 {
		return
	}
	if err := r.server.Reload(next.Limits); err != nil {
		// The relay has logged that the certificate stays; the limits hold.
		r.log.Warn("the certificate was not taken over")
	}
	live, _ := relayconf.Changes(r.current, next)
	_, restart := relayconf.Changes(r.started, next)
	if r.current.LogLevel != next.LogLevel {
		r.usual = next.LogLevel
		r.level.Set(r.usual)
	}
	r.current = next
	r.log.Warn("the configuration was read anew", "changed", live, "need_restart", restart)
}
