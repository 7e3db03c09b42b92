package cli

import (
	"context"
	"path/filepath"
	"time"

	"github.com/ace-toolkit/ace/core/ownerfile"
)

// examineLocks tells who holds what only one process may have.
func (c *checkup) examineLocks(context.Context) {
	before := len(c.found)
	type lock struct{ what, path string }
	locks := []lock{
		{"the making of identities", filepath.Join(c.identitiesDir(), ".create.lock")},
		{"backups", filepath.Join(c.dataDir(), ".scratch.lock")},
	}
	if c.name != "" {
		dir := c.identityDir(c.name)
		locks = append(locks, lock{"changes of " + c.name, filepath.Join(dir, "identity.lock")},
			lock{"receiving", filepath.Join(dir, storeFile+"-receive.lock")}, lock{"handlers", filepath.Join(dir, storeFile+"-handlers.lock")})
	}
	for _, l := range locks {
		c.examineLock(l.what, l.path)
	}
	if len(c.found) == before {
		c.ok("locks", "No process holds a lock.")
	}
}

func (c *checkup) examineLock(what, path string) {
	h, held, err := ownerfile.Held(path)
	switch {
	case err != nil:
		c.failed(severityProblem, "lock", err)
	case h == nil && held:
		c.ok("lock", "A process holds the lock for %s.", what)
	case h == nil:
	case !held:
		c.add(severityNotice, "lock_left", "The lock for %s was left by %q (pid %d), which was killed. It is free.", what, h.Command, h.PID)
	case !exists(h.PID):
		c.add(severityWarning, "lock_foreign", "The lock for %s is held, and %q (pid %d), which took it, is not on this machine.", what, h.Command, h.PID).
			advise("look for it where the folder is mounted as well, or in a container")
	default:
		c.ok("lock", "%q (pid %d) holds the lock for %s since %s.", h.Command, h.PID, what, time.Unix(h.Since, 0).UTC().Format(time.RFC3339))
	}
}
