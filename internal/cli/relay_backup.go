package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// relayBackup is a backup and what its check found.
type relayBackup relayadmin.Backup

func (b relayBackup) text(p *page) {
	p.row("backup", b.Path)
	p.row("sha256", b.SHA256)
	p.row("size", count(b.Size, "byte"))
	storeReport(b.Report).text(p)
}

// storeReport is what a check of a store found.
type storeReport relayadmin.Report

func (r storeReport) text(p *page) {
	verdict := "whole"
	if !r.Whole {
		verdict = "damaged"
	}
	p.row("store", verdict)
	p.row("identities", p.number(r.Identities))
	p.row("queued", packets(r.Entries, r.Bytes))
	p.row("quarantined", p.number(r.Quarantined))
	for _, problem := range r.Problems {
		p.row("problem", clean(problem, false))
	}
}

func newRelayBackupCmd(a *app) *cobra.Command {
	var target adminTarget
	var out string
	c := &cobra.Command{
		Use:   "backup -o FILE",
		Short: "Copy the relay's store into a file and check the copy",
		Long: `Copy the relay's store into a new file, mode 0600, while the relay serves or when
it does not. The copy is opened and checked to the last packet before it gets its
name, and the file says in itself whether it can be restored. It holds the
queued packets, which are sealed, and who they are for. Of a store that its relay
has closed it is made also where nothing can be written beside it.`,
		Example: "  ace relay backup -o relay.backup",
	}
	target.addTo(c.Flags())
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` to make; it must not exist")
	return a.leaf(c, 0, 0, []any{relayBackup{}}, func(ctx context.Context, _ []string) error {
		if out == "" {
			return usagef("-o FILE is required")
		}
		path, err := filepath.Abs(out)
		if err != nil {
			return usagef("-o: %v", err)
		}
		b, err := runRelayBackup(ctx, a, &target, path)
		if err != nil {
			return err
		}
		if err := a.print(relayBackup(b)); err != nil {
			return err
		}
		return wholeOr(b.Report, "the copy")
	})
}

// runRelayBackup asks the relay that runs, or opens the store when none does.
func runRelayBackup(ctx context.Context, a *app, t *adminTarget, path string) (b relayadmin.Backup, err error) {
	err = t.admin(a, func(r *relayadmin.Client) (err error) {
		b, err = r.Backup(ctx, path)
		return err
	})
	if fault.CodeOf(err) != fault.RelayUnavailable {
		return b, err
	}
	if err := t.needStore(); err != nil {
		return b, err
	}
	now := a.io.Now()
	if relaydb.ReadOnly(t.db()) {
		made, err := relaydb.BackupFile(ctx, t.db(), path, now)
		if err == nil {
			a.warn("nothing can be written to %s: its audit.log has no line of this backup", t.data)
			a.warnUnguarded(made.Report)
		}
		return newRelayBackup(made, path), hintUnfinished(err, t.data)
	}
	db, err := relaydb.Open(ctx, t.db(), now)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = t.record(now, "backup", path, func() error {
		made, err := db.Backup(ctx, path, now)
		b = newRelayBackup(made, path)
		return err
	})
	return b, err
}

func newRelayBackup(b relaydb.Backup, path string) relayadmin.Backup {
	return relayadmin.Backup{Report: relayadmin.NewReport(b.Report), Path: path, SHA256: b.SHA256, Size: b.Size}
}

// warnUnguarded says that a relay may have changed what was read.
func (a *app) warnUnguarded(r relaydb.Report) {
	if r.Unguarded {
		a.warn("whether a relay has this store open cannot be told here: there is no lock beside it, or the disk knows none. If one has, what it writes meanwhile may seem to be damage")
	}
}

// hintUnfinished says what helps when a store has to be written to first.
func hintUnfinished(err error, dir string) error {
	if !errors.Is(err, relaydb.ErrUnfinished) {
		return err
	}
	return hintf(err, "copy the folder to where it can be written to, with cp -a %q COPY, and name that with --data COPY", dir)
}

// record takes an action without a relay, on the record of what its operator
// did.
func (t *adminTarget) record(now int64, action, target string, act func() error) (err error) {
	log, err := relayadmin.OpenAuditLog(filepath.Join(t.data, "audit.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return log.Record(now, action, target, act)
}

func newRelayVerifyCmd(a *app) *cobra.Command {
	var target adminTarget
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check the relay's store, or a backup, to the last packet",
		Long: `Check the structure of the relay's store, the digest of every packet in it and
its totals, while the relay serves or when it does not. With FILE, check a
backup. Exits with 33 when something is wrong.

A store that its relay has closed can be checked where nothing can be written.`,
	}
	target.addTo(c.Flags())
	return a.leaf(c, 0, 1, []any{storeReport{}}, func(ctx context.Context, args []string) error {
		r, err := runRelayVerify(ctx, a, &target, args)
		if err != nil {
			return err
		}
		if err := a.print(storeReport(r)); err != nil {
			return err
		}
		return wholeOr(r, "the store")
	})
}

func runRelayVerify(ctx context.Context, a *app, t *adminTarget, args []string) (r relayadmin.Report, err error) {
	if len(args) == 1 {
		return a.verifyFile(ctx, args[0])
	}
	err = t.admin(a, func(c *relayadmin.Client) (err error) {
		r, err = c.Verify(ctx)
		return err
	})
	if fault.CodeOf(err) != fault.RelayUnavailable {
		return r, err
	}
	if err := t.needStore(); err != nil {
		return r, err
	}
	return a.verifyFile(ctx, t.db())
}

func (a *app) verifyFile(ctx context.Context, path string) (relayadmin.Report, error) {
	r, err := relaydb.VerifyFile(ctx, path, a.io.Now())
	if err == nil {
		a.warnUnguarded(r)
	}
	return relayadmin.NewReport(r), hintUnfinished(err, filepath.Dir(path))
}

func newRelayRestoreCmd(a *app) *cobra.Command {
	var target adminTarget
	var force, dry bool
	var confirmed string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of the relay's store",
		Long: `Put a backup in the place of the relay's store, while no relay runs on it. The
backup is checked first. Streams go on in a new generation, so that no client
misses what comes from now on; packets that were acknowledged after the backup
come again and are recognised by their receivers.

A store that is there already is replaced only with --force, and kept beside the
new one. The question is answered by typing the folder's name; a script gives
--yes and --confirm NAME.`,
	}
	target.addTo(c.Flags())
	c.Flags().BoolVar(&force, "force", false, "replace a store that is there already")
	c.Flags().StringVar(&confirmed, "confirm", "", "with --yes: the `NAME` of the folder once more")
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{relayRestored{}, relayPlan{}}, func(ctx context.Context, args []string) error {
		target.complete(a)
		if dry {
			return planRelayRestore(ctx, a, &target, args[0], force)
		}
		if force {
			name := filepath.Base(target.data)
			if err := a.confirmName(ctx, "Replace the store in "+target.data+"?", name, confirmed); err != nil {
				return err
			}
		}
		r, err := runRelayRestore(ctx, a, &target, args[0], force)
		if err != nil {
			return err
		}
		return a.print(relayRestored{storeReport(relayadmin.NewReport(r.Report)), target.db(), orNull(r.Replaced), orNull(r.Packets)})
	})
}

// runRelayRestore puts a restore on record once it is done: what cannot be
// restored changes nothing, and a store says itself when it was restored.
func runRelayRestore(ctx context.Context, a *app, t *adminTarget, backup string, force bool) (r relaydb.Restored, err error) {
	path, err := filepath.Abs(backup)
	if err != nil {
		return r, usagef("%v", err)
	}
	now := a.io.Now()
	if r, err = relaydb.Restore(ctx, path, t.db(), force, now); err != nil {
		return r, hintForce(err, force)
	}
	return r, t.record(now, "restore", path, func() error { return nil })
}

// hintForce says what helps when a store is there that is not to be replaced.
func hintForce(err error, force bool) error {
	if force || !errors.Is(err, fs.ErrExist) {
		return err
	}
	return hintf(err, "--force replaces that store, and keeps it beside the new one")
}

// planRelayRestore is --dry-run: it checks the backup and whether a relay has the
// store, and no more.
func planRelayRestore(ctx context.Context, a *app, t *adminTarget, backup string, force bool) error {
	report, err := relaydb.CheckBackup(ctx, backup)
	if err != nil {
		return err
	}
	if err := storeHeld(t.data, a.io.Now()); err != nil {
		return err
	}
	_, missing := os.Stat(t.db())
	if missing == nil && !force {
		return hintForce(fault.Wrapf(fault.StorageFailed, fs.ErrExist, "%s holds a relay's store", t.db()), force)
	}
	return a.printJSON(relayPlan{"restore", t.db(), report.Entries, missing == nil})
}

// relayRestored is a store made from a backup.
type relayRestored struct {
	storeReport
	Path     string  `json:"path"`
	Replaced *string `json:"replaced"`
	// ReplacedPackets are the files of its packet log, as a pattern.
	ReplacedPackets *string `json:"replaced_packets"`
}

func (r relayRestored) text(p *page) {
	p.row("restored", r.Path)
	r.storeReport.text(p)
	p.row("generation", p.number(r.Generation))
	p.row("replaced", orDash(r.Replaced))
	p.row("its packets", orDash(r.ReplacedPackets))
}

// wholeOr fails for a report with problems, which have been printed.
func wholeOr(r relayadmin.Report, what string) error {
	if r.Whole {
		return nil
	}
	return hintf(fault.New(fault.StorageFailed, "%s is damaged: %s", what, count(len(r.Problems), "problem")), "see docs/relay/runbook.md")
}
