package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/keystore"
)

// mostFiles bounds how many files of the home are looked at.
const mostFiles = 10_000

// examineFiles looks at owner and mode of the home and of every file in it: what
// others can open, ace refuses.
func (c *checkup) examineFiles(context.Context) {
	home, err := filepath.EvalSymlinks(c.dataDir()) // a link to the home is the owner's own business
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	before, seen := len(c.found), 0
	if err == nil {
		err = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a process has just removed it
			}
			if err != nil {
				return err
			}
			if seen++; seen > mostFiles {
				return fs.SkipAll
			}
			info, err := e.Info()
			if err != nil {
				return nil
			}
			if c.examineFile(path, info) && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
	}
	if err != nil {
		c.failed(severityProblem, "files", err).advise("give the folder %s back to yourself", home)
	}
	if len(c.found) == before {
		c.ok("files", "%s and what is in it are yours alone.", c.dataDir())
	}
}

// examineFile looks at one file or folder, and reports whether it cannot be looked
// into.
func (c *checkup) examineFile(path string, info fs.FileInfo) (closed bool) {
	mode, want := info.Mode(), fs.FileMode(0o600)
	if mode.IsDir() {
		want = 0o700
	}
	st, known := info.Sys().(*syscall.Stat_t)
	switch {
	case mode&fs.ModeSymlink != 0:
		c.examineLink(path)
	case !mode.IsRegular() && !mode.IsDir():
		c.add(severityWarning, "file_kind", "%s is no file and no folder.", path).command("rm " + shellQuote(path))
	case known && int(st.Uid) != os.Geteuid():
		c.add(severityProblem, "file_owner", "%s belongs to user %d, not to you.", path, st.Uid).
			command("chown " + strconv.Itoa(os.Geteuid()) + " " + shellQuote(path)).Advice = orNull("run it as root")
	case mode.Perm()&0o077 != 0:
		c.add(severityProblem, "file_mode", "%s is open to other users (mode %04o).", path, mode.Perm()).mode(path, want)
	case mode.Perm()&want != want:
		c.add(severityProblem, "file_mode", "%s is closed to yourself (mode %04o).", path, mode.Perm()).mode(path, want)
	}
	return mode.IsDir() && mode.Perm()&0o500 != 0o500
}

// mode sets the mode that a file is to have as what mends a finding.
func (f *finding) mode(path string, want fs.FileMode) {
	f.command(fmt.Sprintf("chmod %04o %s", want, shellQuote(path))).safely(func() error {
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return errors.Join(err, errors.New("it has become a link"))
		}
		return os.Chmod(path, want)
	})
}

// examineLink looks at a link among the files: a change replaces it by a file, and
// what it leads to keeps the old keys.
func (c *checkup) examineLink(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		c.add(severityProblem, "file_link", "%s is a link that leads nowhere.", path).command("rm " + shellQuote(path))
		return
	}
	c.add(severityWarning, "file_link", "%s is a link to %s: the next change puts a file in its place and leaves the old one there.", path, target).
		command("mv " + shellQuote(target) + " " + shellQuote(path))
}

// leftoverAge is how old a temporary file is that nobody writes any more.
const leftoverAge = time.Hour

// temporary begins the names of the files that are not whole yet.
const temporary = ".new-"

// examineLeftovers looks for what killed processes have left. It runs before the
// identity is opened, which brings a change of its keys to its end.
func (c *checkup) examineLeftovers(context.Context) {
	before := len(c.found)
	folders := []string{c.dataDir(), c.identitiesDir(), filepath.Join(c.configDir(), "ace")}
	if c.name != "" {
		folders = append(folders, c.identityDir(c.name))
	}
	for _, dir := range folders {
		entries, _ := os.ReadDir(dir) // what cannot be read was found before
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), temporary) && e.Type().IsRegular() {
				c.examineTemporary(filepath.Join(dir, e.Name()), e)
			}
		}
	}
	unfinished, _ := keystore.Unfinished(c.identitiesDir())
	for _, path := range unfinished {
		c.examineUnfinished(path)
	}
	c.examineScratch()
	if c.name != "" && keystore.Interrupted(c.identityDir(c.name)) {
		c.add(severityNotice, "change_interrupted", "A change of the keys of %s was not brought to its end. The next command does that.", c.name).
			command(c.ace("identity show"))
	}
	if len(c.found) == before {
		c.ok("leftovers", "No interrupted command has left anything.")
	}
}

// examineScratch looks for the folder of a backup that was killed, which may hold
// messages in the clear.
func (c *checkup) examineScratch() {
	dir := filepath.Join(c.dataDir(), ".scratch")
	if _, err := os.Lstat(dir); err != nil {
		return
	}
	if _, held, err := ownerfile.Held(dir + ".lock"); held || err != nil {
		return // a backup is under way
	}
	c.add(severityWarning, "scratch", "%s was left by a backup that was killed, and may hold a copy of the store.", dir).
		command("rm -r " + shellQuote(dir)).
		safely(func() error {
			_, remove, err := c.scratch() // takes the lock, and what was left away
			if err == nil {
				remove()
			}
			return err
		})
}

func (c *checkup) examineTemporary(path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < leftoverAge {
		return // somebody may be writing it
	}
	c.add(severityNotice, "temporary_file", "%s was left by a process that was killed.", path).
		command("rm " + shellQuote(path)).safely(func() error { return os.Remove(path) })
}

// examineUnfinished looks at the folder of an identity that was not made to its
// end. Whoever makes one holds a lock, and the next one removes it.
func (c *checkup) examineUnfinished(path string) {
	info, err := os.Lstat(path)
	if err != nil || time.Since(info.ModTime()) < leftoverAge {
		return
	}
	c.add(severityNotice, "unfinished_identity", "%s is of an identity that was never made: its command was killed.", path).
		command("rm -r " + shellQuote(path)).
		safely(func() error { return keystore.RemoveUnfinished(c.identitiesDir(), c.app.command, c.now) })
}
