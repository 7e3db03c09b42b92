package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

func newExplainCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "explain [CODE]",
		Short:             "Say what an error code means and what helps",
		Long:              "Say what an error code of ace, a peer or a relay means and what helps. Without\nCODE, list them.",
		Example:           "  ace explain not_permitted",
		ValidArgsFunction: a.complete(1, codeValues),
	}
	return a.leaf(c, 0, 1, []any{explainAnswer{}, explainList{}}, func(_ context.Context, args []string) error { return runExplain(a, args) })
}

// codes returns every code that ace explains.
func codes() []string {
	var all []string
	for _, e := range explanations() {
		all = append(all, e.Code)
	}
	return all
}

// explainAnswer is what is known about a code.
type explainAnswer struct {
	explanation
	Category  string `json:"category"`
	Retryable bool   `json:"retryable"`
	Exit      int    `json:"exit"`
}

func (r explainAnswer) text(p *page) {
	p.row("code", r.Code)
	p.row("category", r.Category)
	p.row("exit status", fmt.Sprint(r.Exit))
	p.row("meaning", r.Meaning)
	p.row("what to do", r.Do)
}

type explainList []explainAnswer

func (r explainList) text(p *page) {
	p.head("CODE", "EXIT", "MEANING")
	for _, e := range r {
		p.row(e.Code, fmt.Sprint(e.Exit), e.Meaning)
	}
}

func runExplain(a *app, args []string) error {
	if len(args) == 0 {
		answer := explainList{}
		for _, e := range explanations() {
			answer = append(answer, explain(e))
		}
		return a.print(answer)
	}
	e, ok := explanationOf(args[0])
	if !ok {
		err := usagef("no code %q", args[0])
		if near := nearest(args[0], codes()); near != "" {
			return hintf(err, "did you mean %s?", near)
		}
		return hintf(err, "ace explain lists the codes")
	}
	return a.print(explain(e))
}

// codeOfReason returns the code of the failure that has a reason of this host, and
// any other code as it is.
func codeOfReason(reason string) fault.Code {
	switch reason {
	case reasonDeniedByPolicy, delivery.ReasonDenied, delivery.ReasonApprovalExpired, delivery.ReasonBlocked, delivery.ReasonNoPermit:
		return fault.NotPermitted
	case delivery.ReasonNoIdentity:
		return fault.IdentityUnavailable
	}
	return fault.Code(reason)
}

// explain adds the exit status of a command that ends with the code. A relay's
// own codes arrive as relay_rejected or a transient code, whose status counts.
func explain(e explanation) explainAnswer {
	r := explainAnswer{explanation: e}
	switch e.Code {
	case codeInternal:
		r.Category, r.Exit, r.Retryable = string(fault.Local), exitBug, true
	case codeDeadline, codeInterrupted, codeDeclined, codeEmpty, codeUnwell, handlerFailed:
		status := map[string]int{
			codeDeadline: exitDeadline, codeInterrupted: exitInterrupted, codeDeclined: exitDeclined, codeEmpty: exitEmpty,
			codeUnwell: exitLocal, handlerFailed: exitLocal,
		}[e.Code]
		report := newReport(&statusError{status, e.Code, fmt.Errorf("%s", e.Code)}, "")
		r.Category, r.Exit, r.Retryable = report.Category, status, report.Retryable
	case string(relayapi.InternalError), string(relayapi.RateLimited), string(relayapi.RecipientInboxFull):
		r.Category, r.Exit, r.Retryable = string(fault.Transient), exitOf(fault.Code(e.Code)), true
		if r.Exit < exitTransient {
			r.Exit = exitTransient
		}
	default:
		code := codeOfReason(e.Code)
		r.Category, r.Retryable, r.Exit = string(code.Category()), code.Retryable(), exitOf(code)
	}
	return r
}
