package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/keystore"
)

func newIdentityBackupCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "backup",
		Short: "Keep an identity in one sealed file",
		Long: `Keep an identity in one sealed file: its keys, its log and its settings, and with
--include store its messages and contacts. The next root is never in it: it is kept
apart, or the identity could be stolen with one file.

A backup has a passphrase of its own, from --backup-passphrase-file, -fd or
-command, or from the terminal. The keys in it are besides under the passphrase
that the identity had.`,
	}, newBackupCreateCmd(a), newBackupVerifyCmd(a), newBackupRestoreCmd(a))
}

type backupOptions struct {
	out     string
	include []string
	pass    passphraseSource
}

func newBackupCreateCmd(a *app) *cobra.Command {
	var o backupOptions
	c := &cobra.Command{
		Use:   "create -o FILE [--include store] [NAME]",
		Short: "Write a backup and check it",
		Long: `Write a backup of an identity into a new file and check it: it is read back, and the
keys in it are opened, before the file gets its name.

With --include store the messages and contacts are in it as well, while others may
be at work. Left out of the copy are the seeds of prekeys, which are deleted on
time so that past packets stay closed. What waits in the outbox at that moment is
expired in the copy and not attempted again: its receipt may come after the backup.`,
		Example:           "  ace identity backup create -o alice.backup --include store",
		ValidArgsFunction: a.complete(1, identityValues),
	}
	f := c.Flags()
	f.StringVarP(&o.out, "output", "o", "", "`FILE` to make; it must not exist")
	f.StringSliceVar(&o.include, "include", nil, "what else to keep: `store`")
	o.pass.addOptions(f, "backup-passphrase", "the passphrase of the backup")
	return a.leaf(c, 0, 1, []any{backupAnswer{}}, func(ctx context.Context, args []string) error {
		return runBackupCreate(ctx, a, args, o)
	})
}

func newBackupVerifyCmd(a *app) *cobra.Command {
	var pass passphraseSource
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a backup without restoring it",
		Long: `Read a backup to its end and check all that is in it. Keys that are under a
passphrase are opened when one of the usual sources (--passphrase-file and so on)
gives it. Nothing is changed and no relay is asked. The copy of a store is written
to a folder of yours for the time of the check.`,
	}
	pass.addOptions(c.Flags(), "backup-passphrase", "the passphrase of the backup")
	return a.leaf(c, 1, 1, []any{backupAnswer{}}, func(ctx context.Context, args []string) error {
		return runBackupVerify(ctx, a, args[0], pass)
	})
}

// The values of a backup's keys.
const (
	keysOpened = "opened" // and they are those of the log
	keysSealed = "sealed" // under a passphrase that was not given
)

// backupAnswer describes a backup that was read to its end.
type backupAnswer struct {
	Path      string   `json:"path"`
	Name      string   `json:"name"`
	ACEID     string   `json:"ace_id"`
	KELSeq    int64    `json:"kel_seq"`
	CreatedAt int64    `json:"created_at"`
	Includes  []string `json:"includes"`
	Keys      string   `json:"keys"` // opened or sealed
	Encrypted bool     `json:"encrypted"`
	// Messages and Outgoing are counted in the copy of the store.
	Messages *int64 `json:"messages"`
	Outgoing *int64 `json:"outgoing"`
	SHA256   string `json:"sha256"`
	Size     int64  `json:"size"`
}

func (r backupAnswer) text(p *page) {
	p.row("backup", r.Path)
	p.row("of", clean(r.Name, false)+" "+r.ACEID)
	p.row("made", p.time(r.CreatedAt))
	p.row("log events", p.number(r.KELSeq+1))
	p.row("keys", r.Keys)
	if r.Messages != nil {
		p.row("store", count(int(*r.Messages), "message")+" in, "+count(int(*r.Outgoing), "message")+" out")
	}
	p.row("size", p.number(r.Size)+" bytes")
	p.row("sha256", r.SHA256)
}

func newBackupAnswer(path string, c *keystore.BackupContents, keys string, held *store.Contents) backupAnswer {
	r := backupAnswer{
		Path: path, Name: c.Name, ACEID: c.ACEID, KELSeq: c.Seq, CreatedAt: c.CreatedAt, Includes: []string{"keys", "settings"},
		Keys: keys, Encrypted: c.Encrypted, SHA256: c.SHA256, Size: c.Size,
	}
	if held != nil {
		r.Includes = append(r.Includes, "store")
		r.Messages, r.Outgoing = &held.Messages, &held.Outgoing
	}
	return r
}

func runBackupCreate(ctx context.Context, a *app, args []string, o backupOptions) error {
	a.io.catchSignals()
	path, err := backupPath(o.out)
	if err != nil {
		return err
	}
	id, err := a.named(args)
	if err != nil {
		return err
	}
	pass, err := a.currentPassphrase(ctx, id)
	if err != nil {
		return err
	}
	defer clear(pass)
	sealing, err := a.backupPassphrase(ctx, o.pass, true)
	if err != nil {
		return err
	}
	defer clear(sealing)
	work, remove, err := a.scratch()
	if err != nil {
		return err
	}
	defer remove()
	snapshot, held, err := a.snapshot(ctx, id, pass, o, work)
	if err != nil {
		return err
	}
	c, err := id.store.Backup(keystore.BackupOptions{Path: path, Snapshot: snapshot, Passphrase: sealing, Command: a.command}, a.io.Now())
	if err != nil {
		return err
	}
	defer c.Destroy()
	if err := c.OpenKeys(pass); err != nil {
		return errors.Join(a.wrongPassphrase(id, err, pass), os.Remove(path))
	}
	a.note(id, core.Note{Event: audit.BackupCreated, KELSeq: c.Seq})
	return a.print(newBackupAnswer(path, c, keysOpened, held))
}

// backupPath is the file of a new backup.
func backupPath(out string) (string, error) {
	if out == "" {
		return "", usagef("-o FILE is required")
	}
	path, err := filepath.Abs(out)
	if err != nil {
		return "", usagef("-o: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", usagef("%s is there already, and no backup is ever replaced", path)
	}
	return path, nil
}

// snapshot copies the store of an identity, where it was asked for, and checks
// the copy.
func (a *app) snapshot(ctx context.Context, id *identity, pass []byte, o backupOptions, work string) (path string, held *store.Contents, err error) {
	for _, what := range o.include {
		if what != "store" {
			return "", nil, usagef("--include takes store, not %q", what)
		}
	}
	if len(o.include) == 0 {
		return "", nil, nil
	}
	s, err := a.openSession(ctx, id, pass)
	if err != nil {
		return "", nil, err
	}
	defer s.Close()
	path = filepath.Join(work, "store.db")
	if err := s.Snapshot(ctx, path); err != nil {
		return "", nil, err
	}
	c, err := store.CheckSnapshot(ctx, path, s.ACEID())
	return path, &c, err
}

// scratch makes a folder for the time of a command, where nobody else looks. One
// command at a time has it, so that what a kill left of another, messages in
// clear among it, is removed and not taken for work under way.
func (a *app) scratch() (dir string, remove func(), err error) {
	if err := ownerfile.MakeDir(a.dataDir()); err != nil {
		return "", nil, err
	}
	lock, err := ownerfile.Acquire(filepath.Join(a.dataDir(), ".scratch.lock"), a.command, a.io.Now())
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(a.dataDir(), ".scratch")
	err = os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", nil, errors.Join(fault.Wrap(fault.StorageFailed, err), lock.Release())
	}
	return dir, func() {
		os.RemoveAll(dir)
		lock.Release()
	}, nil
}

// backupPassphrase returns the passphrase of a backup, which always has one.
func (a *app) backupPassphrase(ctx context.Context, s passphraseSource, fresh bool) (pass []byte, err error) {
	switch {
	case s.given():
		return s.read(ctx, a.io)
	case !a.interactive():
		return nil, hintf(declined("no passphrase of the backup", ""), "use --backup-passphrase-file, --backup-passphrase-fd or --backup-passphrase-command")
	case fresh:
		pass, err = a.askNewPassphrase(ctx, "the backup")
	default:
		pass, err = a.askPassphrase(ctx, "Passphrase of the backup")
	}
	if err == nil && len(pass) == 0 {
		err = declined("no passphrase of the backup", "a backup always has one")
	}
	return pass, err
}

func runBackupVerify(ctx context.Context, a *app, file string, source passphraseSource) error {
	a.io.catchSignals()
	f, err := openBackup(file)
	if err != nil {
		return err
	}
	defer f.Close()
	opening, err := a.backupPassphrase(ctx, source, false)
	if err != nil {
		return err
	}
	defer clear(opening)
	work, remove, err := a.scratch()
	if err != nil {
		return err
	}
	defer remove()
	path := filepath.Join(work, "store.db")
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	c, err := keystore.ReadBackup(f, opening, copied, a.io.Now())
	if err := errors.Join(unreadable(err), copied.Close()); err != nil {
		return err
	}
	defer c.Destroy()
	held, err := checkCopy(ctx, c, path)
	if err != nil {
		return err
	}
	keys, err := a.openBackupKeys(ctx, c)
	if err != nil {
		return err
	}
	return a.print(newBackupAnswer(f.Name(), c, keys, held))
}

// unreadable says what helps with a backup that does not open.
func unreadable(err error) error {
	if errors.Is(err, fault.IdentityUnavailable) {
		return withHint(err, "give the passphrase that the backup was made with: --backup-passphrase-file, -fd or -command")
	}
	return err
}

// openBackup opens the file of a backup, which may lie on any medium: what is in
// it is sealed.
func openBackup(file string) (*os.File, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, usagef("%v", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return f, nil
}

// checkCopy checks the copy of a store that a backup has, nil for none.
func checkCopy(ctx context.Context, c *keystore.BackupContents, path string) (*store.Contents, error) {
	if !c.Store {
		return nil, nil
	}
	held, err := store.CheckSnapshot(ctx, path, c.ACEID)
	return &held, err
}

// openBackupKeys opens the keys in a backup as far as that is possible, and says
// how far it was.
func (a *app) openBackupKeys(ctx context.Context, c *keystore.BackupContents) (string, error) {
	if !c.Encrypted {
		return keysOpened, c.OpenKeys(nil)
	}
	pass, err := a.passphrase(ctx, c.Name)
	if err != nil {
		return "", err
	}
	if pass == nil {
		return keysSealed, nil
	}
	defer clear(pass)
	err = c.OpenKeys(pass)
	return keysOpened, withHint(err, "give the passphrase that the keys had when the backup was made")
}
