package cli

import (
	"context"
	"fmt"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/wire"
)

// By how many seconds the clock may differ from that of the relay. The last bound
// is the window of signed times (07#authentication).
const (
	clockFine   = 5
	clockNotice = 60
)

// examineRelay asks the relay: whether it serves, what time it has, and what it
// holds of the identity.
func (c *checkup) examineRelay(ctx context.Context) {
	if c.id == nil || c.o.offline {
		return
	}
	relay, err := c.homeRelay(c.id)
	if err != nil {
		c.failed(severityProblem, "relay", err)
		return
	}
	if relay == "" {
		return // that was found before
	}
	c.examineLocalRelay(relay)
	asking, cancel := c.deadline(ctx)
	defer cancel()
	before := c.io.Now()
	health, err := core.AskHealth(asking, relay, c.urls(c.id))
	c.examineClock(health.Date, before, c.io.Now())
	if err != nil {
		c.failed(severityProblem, "relay", fmt.Errorf("%s: %w", relay, err))
		return
	}
	c.ok("relay", "%s serves.", relay)
	if c.session != nil {
		c.examineAtRelay(asking)
	}
}

// examineClock compares the clock with the Date of an answer that was asked for
// and came between two readings. The header has whole seconds.
func (c *checkup) examineClock(date, before, after int64) {
	if date == 0 {
		return
	}
	off, way := int64(0), ""
	switch {
	case date > after:
		off, way = date-after, "behind"
	case date+1 < before:
		off, way = before-date-1, "ahead of"
	}
	severity := severityOK
	switch {
	case off <= clockFine:
		c.ok("clock", "The clock agrees with that of the relay.")
		return
	case off <= clockNotice:
		severity = severityNotice
	case off <= wire.TimestampWindowSeconds:
		severity = severityWarning
	default:
		severity = severityProblem
	}
	c.add(severity, "clock", "The clock of this machine is %d s %s that of the relay; beyond %d s nothing that is signed here is taken.", off, way, wire.TimestampWindowSeconds).
		command("timedatectl set-ntp true").Advice = orNull("or have the relay's clock set, where that is the wrong one")
}

// examineAtRelay looks at the registration, and behind it at what is served.
func (c *checkup) examineAtRelay(ctx context.Context) {
	withdrawn, err := c.session.Withdrawn(ctx)
	if err != nil || withdrawn {
		return // that was found before
	}
	registered, err := c.session.Registered(ctx)
	switch {
	case err != nil:
		c.failed(severityProblem, "registration", err)
		return
	case !registered:
		c.add(severityProblem, "registration", "The relay does not know this identity with the keys that it has now: nobody can reach it.").command(c.ace("publish"))
		return
	}
	c.ok("registration", "The identity is registered at the relay.")
	c.examineServed(ctx)
	c.examineHandle(ctx)
}

// examineLocalRelay looks at the disk of a development relay of this machine.
func (c *checkup) examineLocalRelay(relay string) {
	relays, err := c.devRelays()
	if err != nil {
		c.failed(severityWarning, "dev_relay", err)
		return
	}
	for _, d := range relays {
		switch {
		case !exists(d.PID):
			c.add(severityNotice, "dev_relay", "%s was left by a development relay that was killed.", d.path).
				command("rm " + shellQuote(d.path))
		case d.URL == relay && d.Data != "":
			c.examineSpace("relay_disk_space", "beside the store of the relay", d.Data)
		}
	}
}
