package cli

import (
	"context"
	"errors"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

type restoreOptions struct {
	name    string
	pass    passphraseSource
	offline bool
}

func newBackupRestoreCmd(a *app) *cobra.Command {
	var o restoreOptions
	c := &cobra.Command{
		Use:   "restore FILE [--name NAME]",
		Short: "Make an identity of a backup",
		Long: `Make an identity of a backup, under a name that is free. It is refused where the
same identity is there already, or was destroyed here after it had signed more, and
when the home relay knows of events that the backup lacks: two installations would
sign different events, and peers would believe neither. End the other installation
before.

A relay that does not answer is asked again by the first command that needs it;
until then no event can be signed. That command also publishes a new descriptor
with a new prekey before anything is received.

What happened after the backup is not in it. Messages that were handled since may
come again, so what they cause has to bear that. Messages that waited are expired:
their outcome is unknown until a receipt comes, and sending them again is yours to
decide. Who was blocked since is not, at this end.`,
		Example: "  ace identity backup restore alice.backup",
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "local `NAME` of the identity (default the one it had)")
	f.BoolVar(&o.offline, "offline", false, "do not ask the relay now")
	o.pass.addOptions(f, "backup-passphrase", "the passphrase of the backup")
	return a.leaf(c, 1, 1, []any{restoredAnswer{}}, func(ctx context.Context, args []string) error {
		return runBackupRestore(ctx, a, args[0], o)
	})
}

// The values of a restored identity's relay_check besides those of core.
const (
	checkNone    = "no_relay"  // the identity has no relay
	checkOffline = "offline"   // not asked
	checkFailed  = "no_answer" // asked in vain
)

// restoredAnswer is an identity made of a backup.
type restoredAnswer struct {
	identityAnswer
	BackupAt int64    `json:"backup_at"`
	Includes []string `json:"includes"`
	// RelayCheck is how the log compares with the relay's: same, behind, unknown,
	// no_relay, offline or no_answer.
	RelayCheck string `json:"relay_check"`
	// Pending is true until a command has settled with the relay that nobody
	// knows of later events.
	Pending bool `json:"pending"`
}

func (r restoredAnswer) text(p *page) {
	p.line("restored %s, as it was %s: %s", r.Name, p.time(r.BackupAt), r.ACEID)
	switch r.RelayCheck {
	case string(core.LogSame):
		p.line("its relay has the same log")
	case string(core.LogBehind):
		p.line("its relay has an older log")
	case string(core.LogUnknown):
		p.line("its relay serves nothing of it")
	case checkNone:
		p.line("it has no relay")
	default:
		p.line("its relay was not asked for the log")
	}
	if r.Pending {
		p.line("it signs no event before it has registered there: ace --as %s publish", r.Name)
	}
}

func runBackupRestore(ctx context.Context, a *app, file string, o restoreOptions) error {
	a.io.catchSignals()
	f, err := openBackup(file)
	if err != nil {
		return err
	}
	defer f.Close()
	pass, err := a.backupPassphrase(ctx, o.pass, false)
	if err != nil {
		return err
	}
	defer clear(pass)
	now := a.io.Now()
	if o.name == "" {
		if o.name, err = a.nameInBackup(file, pass); err != nil {
			return unreadable(err)
		}
	}
	if err := checkName(o.name); err != nil {
		return hintf(err, "choose another one with --name")
	}
	r := &restoring{app: a, offline: o.offline, now: now}
	s, c, err := keystore.Restore(f, keystore.RestoreOptions{
		Dir: a.identityDir(o.name), Passphrase: pass, Command: a.command,
		Check: func(c *keystore.BackupContents, path string) (bool, error) { return r.check(ctx, c, path) },
	}, now)
	switch {
	case errors.Is(err, fault.InvalidArgument):
		return hintf(&statusError{exitUsage, "", err}, "choose another name with --name, or another --home")
	case err != nil:
		return unreadable(err)
	}
	_, pending, err := s.Restored()
	if err != nil {
		return err
	}
	restored := &identity{name: o.name, store: s, settings: r.settings}
	a.note(restored, core.Note{Event: audit.BackupRestored, KELSeq: c.Seq})
	answer := restoredAnswer{BackupAt: c.CreatedAt, Includes: newBackupAnswer("", c, "", r.held).Includes, RelayCheck: r.verdict, Pending: pending}
	if answer.identityAnswer, err = a.describe(restored); err != nil {
		return err
	}
	return a.print(answer)
}

// nameInBackup reads the name that an identity had, which only the sealed part
// of a backup says.
func (a *app) nameInBackup(file string, pass []byte) (string, error) {
	f, err := openBackup(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := keystore.PeekBackup(f, pass)
	return info.Name, err
}

// restoring is one restore.
type restoring struct {
	*app
	offline  bool
	now      int64
	settings settings
	held     *store.Contents
	verdict  string // relay_check
}

// check looks at a backup before it becomes an identity. Only one without a relay
// has nobody to settle with.
func (r *restoring) check(ctx context.Context, c *keystore.BackupContents, path string) (unsettled bool, err error) {
	meta, err := toml.Decode(string(c.Settings()), &r.settings)
	if err != nil || len(meta.Undecoded()) > 0 {
		return false, fault.New(fault.StorageFailed, "the settings in the backup are those of another program: %v", err)
	}
	if r.held, err = checkCopy(ctx, c, path); err != nil {
		return false, err
	}
	r.verdict, err = r.compare(ctx, c)
	return r.verdict != checkNone, err
}

// compare asks the home relay for its log. A relay that does not answer is no
// reason not to restore: nothing is signed before it has.
func (r *restoring) compare(ctx context.Context, c *keystore.BackupContents) (string, error) {
	switch {
	case r.settings.Relay == "":
		return checkNone, nil
	case r.offline:
		return checkOffline, nil
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	policy := wire.Production
	if r.settings.Dev || r.flags.allowLoopback {
		policy = wire.Development
	}
	found, err := core.CompareLog(ctx, r.settings.Relay, c.Log(), policy, r.now)
	switch {
	case errors.Is(err, fault.KELConflict):
		return "", hintf(err, "%s", behindHint)
	case err != nil && (fault.CodeOf(err).Category() == fault.Transient || ctx.Err() != nil):
		r.warn("the relay %s did not answer: %s", r.settings.Relay, clean(err.Error(), false))
		return checkFailed, nil
	}
	return string(found), err
}

// behindHint helps with an installation that is not the newest one.
const behindHint = "another installation went on after the backup: use that one, or take the identity back with the next root (ace identity recover)"

// settleRestored is done before the first thing a restored identity does at its
// relay: it makes sure that nobody knows of events that the log lacks, and
// publishes a new prekey, before anything is received. A sender whose packet
// cannot be opened any more then finds another prekey than the one it used,
// which ends its message otherwise (06#outbox-sender).
//
// Unasked says that the command is no ace publish: what was unregistered before the
// backup does nothing at its relay until then.
func (a *app) settleRestored(ctx context.Context, s *session, unasked bool) error {
	backupAt, pending, err := s.id.store.Restored()
	if err != nil || !pending {
		return err
	}
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	found, err := s.CompareLog(ctx)
	if err == nil {
		// A log that no descriptor carries any more still bounds a registration
		// (07#registration).
		_, err = s.Publish(ctx, core.PublishOptions{Force: true, Unasked: unasked})
	}
	if errors.Is(err, fault.KELConflict) || remoteIs(err, relayapi.StaleSeq) || remoteIs(err, fault.KELConflict) {
		return hintf(err, "%s", behindHint)
	}
	if err != nil {
		return err
	}
	if err := s.id.store.ConfirmRestored(); err != nil {
		return err
	}
	a.say("%s was restored from a backup of %s; its relay's log: %s; a new descriptor is published",
		s.id.name, time.Unix(backupAt, 0).UTC().Format(time.RFC3339), found)
	return nil
}

// remoteIs reports whether a relay stated that code.
func remoteIs(err error, code fault.Code) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Remote == string(code)
}
