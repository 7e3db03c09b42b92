package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/keystore"
)

type doctorOptions struct{ fix, offline bool }

func newDoctorCmd(a *app) *cobra.Command {
	var o doctorOptions
	c := &cobra.Command{
		Use:   "doctor [--fix] [--offline]",
		Short: "Look for what is wrong, and say what mends it",
		Long: `Look at the files, locks, keys, permits and store of an identity, at the disk they
are on and at what its relay serves, and say what is wrong and which command mends
it. The status is 0 when nothing is worse than a notice, else 30.

Nothing is published, received or sent. --fix does what is safe and can be undone:
it takes files of yours from other users and removes what killed processes have
left. The rest is for you to do.`,
		Annotations: map[string]string{toleratesConfig: "yes"},
	}
	c.Flags().BoolVar(&o.fix, "fix", false, "mend what is safe to mend")
	c.Flags().BoolVar(&o.offline, "offline", false, "do not ask the relay")
	return a.leaf(c, 0, 0, []any{doctorAnswer{}}, func(ctx context.Context, _ []string) error { return runDoctor(ctx, a, o) })
}

// The severities of a finding, from the best to the worst.
const (
	severityOK      = "ok"
	severityNotice  = "notice"  // worth to know
	severityWarning = "warning" // it will fail some day, or part of it
	severityProblem = "problem" // it fails
)

// doctorAnswer is what a checkup found. ACEID is null when there is no identity, or
// it cannot be read.
type doctorAnswer struct {
	Name     *string   `json:"name"`
	ACEID    *string   `json:"ace_id"`
	Worst    string    `json:"worst"`
	Findings []finding `json:"findings"`
	Fixed    []mended  `json:"fixed"` // by --fix
}

// finding is one thing that was looked at. Fix is the command that mends it, Advice
// what helps where no command does.
type finding struct {
	Code     string  `json:"code"`
	Severity string  `json:"severity"`
	Message  string  `json:"message"`
	Fix      *string `json:"fix"`
	Advice   *string `json:"advice"`

	mend func() error // what --fix does; nil: that is for the owner
}

// mended is a finding that --fix has mended.
type mended struct {
	Code string `json:"code"`
	Fix  string `json:"fix"`
}

func (r doctorAnswer) text(p *page) {
	for _, f := range r.Findings {
		p.row(f.Severity, f.Code, f.Message)
		if f.Fix != nil {
			p.row("", "", "fix: "+*f.Fix)
		}
		if f.Advice != nil {
			p.row("", "", "do: "+*f.Advice)
		}
	}
}

func runDoctor(ctx context.Context, a *app, o doctorOptions) error {
	a.io.catchSignals()
	c := &checkup{app: a, o: o, now: a.io.Now()}
	defer c.close()
	if err := c.chooseIdentity(); err != nil {
		return err
	}
	for _, examine := range examinations() {
		if err := c.run(ctx, examine); err != nil {
			return err
		}
	}
	answer := c.answer()
	if err := a.print(answer); err != nil {
		return err
	}
	if answer.Worst == severityWarning || answer.Worst == severityProblem {
		return c.unwell()
	}
	return nil
}

// examinations are what doctor does, in this order: what lies below a thing is
// looked at, and mended, before it.
func examinations() []func(*checkup, context.Context) {
	return []func(*checkup, context.Context){
		(*checkup).examineConfig,
		(*checkup).examineFiles,
		(*checkup).examineLeftovers,
		(*checkup).examineLocks,
		(*checkup).examineDisk,
		(*checkup).examineIdentity,
		(*checkup).examineKeys,
		(*checkup).examineNextRoot,
		(*checkup).examineStore,
		(*checkup).examinePassphrase,
		(*checkup).examinePolicy,
		(*checkup).examineDamage,
		(*checkup).examinePublished,
		(*checkup).examinePermits,
		(*checkup).examineRelay,
	}
}

// checkup is one run of ace doctor.
type checkup struct {
	*app
	o         doctorOptions
	now       int64
	name      string           // of the identity to act as, "" for none
	id        *identity        // nil when it cannot be read
	log       *kel.State       // nil with id
	condition *store.Condition // nil before the store was looked at
	session   *session         // nil when the keys do not open
	found     []*finding
	fixed     []mended
}

func (c *checkup) close() {
	if c.session != nil {
		c.session.Close()
	}
}

// chooseIdentity finds out which identity is meant. That there is none is found
// later; that it is not said is wrong usage.
func (c *checkup) chooseIdentity() error {
	name, err := c.identityName()
	if err == nil {
		err = checkName(name)
	}
	if exitOf(err) == exitUsage {
		return err
	}
	c.name = name
	return nil
}

// run makes one examination, and once more after --fix has mended what it found.
func (c *checkup) run(ctx context.Context, examine func(*checkup, context.Context)) error {
	before := len(c.found)
	examine(c, ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !c.o.fix || !c.mend(c.found[before:]) {
		return nil
	}
	c.found = c.found[:before]
	examine(c, ctx)
	return ctx.Err()
}

// mend does what the findings have to be mended with, telling of each, and reports
// whether it did any.
func (c *checkup) mend(found []*finding) (did bool) {
	for _, f := range found {
		if f.mend == nil {
			continue
		}
		c.say("fixing %s: %s", f.Code, *f.Fix)
		if err := f.mend(); err != nil {
			c.warn("%s: %v", *f.Fix, err)
			continue
		}
		did = true
		c.fixed = append(c.fixed, mended{f.Code, *f.Fix})
	}
	return did
}

// add records a finding. Its sentence may hold texts of others.
func (c *checkup) add(severity, code, format string, args ...any) *finding {
	f := &finding{Code: code, Severity: severity, Message: clean(fmt.Sprintf(format, args...), false)}
	c.found = append(c.found, f)
	return f
}

func (c *checkup) ok(code, format string, args ...any) { c.add(severityOK, code, format, args...) }

// failed records an error, with its own next step as the advice.
func (c *checkup) failed(severity, code string, err error) *finding {
	r := newReport(causeOf(context.Background(), err), c.app.command)
	f := c.add(severity, code, "%s (%s).", r.Message, r.Code)
	if r.Hint != "" {
		f.advise("%s", r.Hint)
	}
	return f
}

// command sets the command line that mends a finding.
func (f *finding) command(line string) *finding {
	f.Fix, f.Advice = &line, nil
	return f
}

func (f *finding) advise(format string, args ...any) *finding {
	text := clean(fmt.Sprintf(format, args...), false)
	f.Advice = &text
	return f
}

// safely lets --fix mend a finding that has a command.
func (f *finding) safely(mend func() error) { f.mend = mend }

// ace returns the command line of one that acts as the identity of the checkup.
func (c *checkup) ace(format string, args ...any) string {
	line := "ace"
	for _, option := range [...]struct{ name, value string }{{"home", c.flags.home}, {"config", c.flags.config}, {"as", c.name}} {
		if option.value != "" {
			line += " --" + option.name + " " + shellQuote(option.value)
		}
	}
	return line + " " + fmt.Sprintf(format, args...)
}

// shellQuote writes a word so that a shell takes it as it is.
func shellQuote(word string) string {
	plain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@,+=", r))
	})
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (c *checkup) answer() doctorAnswer {
	r := doctorAnswer{Name: orNull(c.name), Worst: severityOK, Findings: []finding{}, Fixed: append([]mended{}, c.fixed...)}
	if c.log != nil {
		id := c.log.ACEID()
		r.ACEID = &id
	}
	for _, f := range c.found {
		r.Findings = append(r.Findings, *f)
	}
	for _, severity := range []string{severityNotice, severityWarning, severityProblem} {
		if c.count(severity) > 0 {
			r.Worst = severity
		}
	}
	return r
}

func (c *checkup) count(severity string) (n int) {
	for _, f := range c.found {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// unwell is the end of a checkup that found something.
func (c *checkup) unwell() error {
	return &statusError{exitLocal, codeUnwell, fmt.Errorf("found %s and %s",
		count(c.count(severityProblem), "problem"), count(c.count(severityWarning), "warning"))}
}

// examineIdentity finds the identity and reads its public files.
func (c *checkup) examineIdentity(context.Context) {
	if c.name == "" {
		c.add(severityProblem, "identity", "There is no identity in %s.", c.dataDir()).command(c.ace("init"))
		return
	}
	id, err := c.openIdentity(c.name)
	if err == nil {
		c.log, err = id.store.Log(c.now)
	}
	if err != nil {
		f := c.failed(severityProblem, "identity", err)
		if errors.Is(err, fault.IdentityUnavailable) && !errors.Is(err, keystore.ErrDestroyed) {
			f.advise("name another identity with --as, or restore this one with ace identity backup restore")
		}
		return
	}
	c.id = id
	c.ok("identity", "%s is %s.", c.name, c.log.ACEID())
	if _, pending, err := id.store.Restored(); err != nil || pending {
		c.add(severityWarning, "restored", "It was restored from a backup and has not been compared with its relay yet.").command(c.ace("publish"))
	}
}
