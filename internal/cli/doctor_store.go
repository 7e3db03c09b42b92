package cli

import (
	"context"

	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	// overdueSeconds is how long after its time an attempt is overdue: upkeep makes
	// it within the hour (05#delivery-permits).
	overdueSeconds = 2 * 3600
	// endingSeconds is how long before its end a message is told of.
	endingSeconds = 86400
	// longLog is a write-ahead log that nobody has emptied for long, in bytes.
	longLog = 16 << 20
	// fullShare is the part of the capacity, in percent, from which it is told.
	fullShare = 80
	// capacity is how many unhandled messages an endpoint takes by default.
	capacity = 100_000
	// clockSlack is by how many seconds what is stored may be ahead of the clock.
	clockSlack = 60
)

// examineStore looks at the store from outside, before it is opened.
func (c *checkup) examineStore(ctx context.Context) {
	if c.id == nil {
		return
	}
	s, err := store.Examine(ctx, c.id.storePath(), c.now-overdueSeconds, c.now+endingSeconds-wire.OfflineWindowSeconds)
	if err != nil {
		c.failed(severityProblem, "store", err)
		return
	}
	c.condition = &s
	switch {
	case !s.Exists:
		c.ok("store", "There is no store yet.")
	case s.Damage != "":
		c.add(severityProblem, "store", "The store %s is damaged: %.200q.", c.id.storePath(), s.Damage).
			advise("end what uses it, and restore a backup that has the store; without one, move %s* away: what it knew is lost, the identity is not", c.id.storePath())
	case s.Version > s.OurVersion:
		c.add(severityProblem, "store", "The store is of a newer program: its schema has version %d, ours %d.", s.Version, s.OurVersion).
			advise("update ace")
	case s.Version < s.OurVersion:
		c.add(severityNotice, "store", "The store is of an older program: its schema has version %d, and the next command brings it to %d.", s.Version, s.OurVersion).
			command(c.ace("status --offline"))
	case s.Identity != "" && s.Identity != c.log.ACEID():
		c.add(severityProblem, "store", "The store belongs to %s, another identity.", s.Identity).
			advise("put the store of this identity back in place, or move %s* away", c.id.storePath())
	default:
		c.ok("store", "The store is whole: %d KiB, schema %d.", (s.Bytes+s.LogBytes)>>10, s.Version)
		c.examineRows(s)
	}
	if s.LogBytes > longLog {
		c.add(severityWarning, "store_log", "The write-ahead log of the store has %d MiB: a process keeps it from being emptied, or was killed.", s.LogBytes>>20).
			command(c.ace("status --offline"))
	}
	c.examineClockSetBack(s.NewestAt)
}

// examineRows looks at what waits in the store.
func (c *checkup) examineRows(s store.Condition) {
	switch {
	case s.Unhandled >= capacity:
		c.add(severityProblem, "inbox_full", "%d messages are not marked as read: nothing more is received.", s.Unhandled).command(c.ace("inbox list --mark-read"))
	case s.Unhandled >= capacity*fullShare/100:
		c.add(severityWarning, "inbox_full", "%d messages are not marked as read: with %d nothing more is received.", s.Unhandled, capacity).command(c.ace("inbox list --mark-read"))
	default:
		c.ok("inbox", "%s not marked as read.", areMessages(s.Unhandled))
	}
	if s.Overdue > 0 {
		c.add(severityWarning, "outbox_overdue", "%s without an outcome waited for more than two hours for the next attempt: neither ace listen nor ace maintain runs, or relays of peers do not answer.", areMessages(s.Overdue)).
			command(c.ace("maintain"))
	}
	if s.Ending > 0 {
		c.add(severityWarning, "outbox_ending", "%s without a receipt ends within a day: then nothing is known of its outcome.", areMessages(s.Ending)).
			advise("ask the peers to receive; ace outbox list shows the messages")
	}
	if s.Overdue == 0 && s.Ending == 0 {
		c.ok("outbox", "%s without an outcome, none overdue.", areMessages(s.Pending))
	}
	if s.Quarantined > 0 {
		c.add(severityNotice, "quarantine", "%s given up after several fetches.", count(s.Quarantined, "packet")).
			advise("see ace quarantine list, and drop what is of no use: ace quarantine drop NUMBER")
	}
}

func areMessages(n int64) string { return count(n, "message") }

// examineDamage tries what is sealed in the store, for which the keys have to be open.
func (c *checkup) examineDamage(ctx context.Context) {
	if c.session == nil {
		return
	}
	damaged, err := c.session.CountDamaged(ctx)
	switch {
	case err != nil:
		c.failed(severityProblem, "damaged_rows", err)
	case damaged > 0:
		c.add(severityWarning, "damaged_rows", "%s in the store that do not open: ace inbox list, outbox list and contact requests show which.", count(damaged, "row")).
			advise("see whether the disk or the memory fails, and restore a backup where what is lost matters")
	default:
		c.ok("damaged_rows", "All that is sealed in the store opens.")
	}
}

// examineClockSetBack compares the clock with what was stored by it.
func (c *checkup) examineClockSetBack(newest int64) {
	if c.log != nil {
		events := c.log.Events()
		newest = max(newest, events[len(events)-1].TS)
	}
	ahead := newest - c.now
	if ahead <= clockSlack {
		return
	}
	severity := severityWarning
	if ahead > wire.TimestampWindowSeconds {
		severity = severityProblem
	}
	c.add(severity, "clock_set_back", "The clock has been set back: what is stored here is up to %d s ahead of it.", ahead).
		advise("set the clock; where it was wrong before, wait that long: what is signed meanwhile may be refused")
}
