package cli

import "context"

// targetError is the line of a target for which a command failed.
type targetError struct {
	Target string `json:"target"`
	Error  report `json:"error"`
}

// reported is the end of a command whose errors have been printed.
type reported struct{ status int }

func (e *reported) Error() string { return "the errors have been printed" }

// forEach does the same for several targets. One failure does not keep the
// others from being tried, and the worst decides the exit status.
func (a *app) forEach(ctx context.Context, targets []string, do func(target string) error) error {
	if len(targets) == 1 {
		return do(targets[0])
	}
	worst := exitOK
	for _, target := range targets {
		err := do(target)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		if a.flags.json {
			if err := a.printJSON(targetError{target, newReport(err, a.command)}); err != nil {
				return err
			}
		} else {
			a.printError(withHint(err, "this was about %s", target))
		}
		if status := exitOf(err); worse(status, worst) {
			worst = status
		}
	}
	if worst == exitOK {
		return nil
	}
	return &reported{worst}
}

// worse orders exit statuses: what is not authentic before what is refused,
// that before a failure of this machine, that before what may pass.
func worse(a, b int) bool { return weight(a) > weight(b) }

func weight(status int) int {
	switch {
	case status == exitOK:
		return 0
	case status == exitNotAuthentic:
		return 5
	case status/10 == exitPermanent/10:
		return 4
	case status/10 == exitLocal/10:
		return 3
	case status/10 == exitTransient/10:
		return 2
	}
	return 6
}
