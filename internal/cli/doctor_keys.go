package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

// keyEndsSoon is how long before its end a signing key is warned of, in seconds.
const keyEndsSoon = 30 * 86400

// examineKeys looks at the time of the signing key and at the room in the log.
func (c *checkup) examineKeys(context.Context) {
	if c.log == nil {
		return
	}
	d := c.log.Delegated()
	switch {
	case !c.log.Usable(c.now):
		c.add(severityProblem, "signing_key", "No signing key is in force: its time is over, or none is delegated.").command(c.ace("identity delegate"))
	case d.NotAfter != 0 && d.NotAfter-c.now < keyEndsSoon:
		c.add(severityWarning, "signing_key", "The signing key ends in %s.", count((d.NotAfter-c.now)/86400, "day")).command(c.ace("identity delegate"))
	case d.NotAfter == 0:
		c.ok("signing_key", "The signing key is in force until it is replaced.")
	default:
		c.ok("signing_key", "The signing key is in force for %s.", count((d.NotAfter-c.now)/86400, "day"))
	}
	c.examineBudget()
}

// examineBudget looks at the room that is left in the log. The room of two events
// is kept for an emergency, and strangers take only a short log (05#flow).
func (c *checkup) examineBudget() {
	room, events := c.log.Budget(), len(c.log.Events())
	left := count(room.Appends(), "more event")
	switch {
	case room.Emergency():
		c.add(severityProblem, "kel_budget", "The log has room for %s, which is kept to replace stolen keys: no new signing key can be delegated.", left).
			advise("ace identity recover gives back the room of the current root; else move to another identity")
	case !room.Routine():
		c.add(severityWarning, "kel_budget", "The log has room for %s: for new signing keys, and no more than one new root.", left).
			advise("delegate for longer (ace identity delegate --not-after 366d), and rotate only in need")
	default:
		c.ok("kel_budget", "The log has %s and room for %s.", count(events, "event"), left)
	}
	if events > wire.MaxStrangerKELEvents {
		c.add(severityNotice, "kel_strangers", "The log has %d events, and of a stranger a peer takes at most %d: only an invitation makes you known to new peers.", events, wire.MaxStrangerKELEvents).
			advise("have new peers invite you: ace contact invite on their side, ace contact import on yours")
	}
}

// examineNextRoot looks whether the next root still lies where whoever steals the
// root finds it as well (01#rotation-and-recovery).
func (c *checkup) examineNextRoot(context.Context) {
	if c.id == nil || c.id.settings.NextRoot == "" || c.id.settings.Dev {
		return
	}
	path := c.id.settings.NextRoot
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		c.ok("next_root", "The next root is not on this machine any more.")
		return
	}
	c.add(severityWarning, "next_root", "The next root, which takes the identity back after a theft, is still on this machine: %s.", path).
		advise("move it to a safe place, and try it there: ace identity recover --rehearse --next-root FILE")
	if ownerfile.CheckFile(path) != nil {
		c.add(severityProblem, "file_mode", "The next root %s is open to other users.", path).mode(path, 0o600)
	}
}
