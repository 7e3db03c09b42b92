package cli

import (
	"context"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/admission"
)

// permitEndsSoon is how long before its end a permit is told of, in seconds:
// receipts have renewed one in use long before (05#delivery-permits).
const permitEndsSoon = 7 * 86400

// examinePermits looks at the permits between the identity and the peers that it
// has admitted.
func (c *checkup) examinePermits(ctx context.Context) {
	if c.session == nil {
		return
	}
	contacts, err := c.session.Contacts(ctx)
	if err != nil {
		c.failed(severityProblem, "permit", err)
		return
	}
	admitted := map[string]bool{}
	for _, contact := range contacts {
		if contact.State == string(admission.Admitted) {
			admitted[contact.ACEID] = true
		}
	}
	permits, err := c.session.Permits(ctx)
	if err != nil {
		c.failed(severityProblem, "permit", err)
		return
	}
	before := len(c.found)
	for _, p := range permits {
		if admitted[p.ACEID] {
			c.examinePermit(p)
		}
	}
	if len(c.found) == before {
		c.ok("permits", "The permits between you and %s are valid for more than a week.", count(len(admitted), "peer"))
	}
}

func (c *checkup) examinePermit(p core.Permit) {
	code, whose, may := "permit_issued", "The permit that %s holds of you", "it cannot write to you"
	if p.Held {
		code, whose, may = "permit_held", "The permit that you hold of %s", "you cannot write to it"
	}
	peer := p.Name
	if peer == "" {
		peer = p.ACEID
	}
	left := p.ExpiresAt - c.now
	var f *finding
	switch {
	case left <= 0:
		f = c.add(severityWarning, code, whose+" ended %s: %s.", peer, ago(-left), may)
	case !p.Valid:
		f = c.add(severityWarning, code, whose+" is void, since its issuer has another signing key: %s.", peer, may)
	case left < permitEndsSoon:
		f = c.add(severityNotice, code, whose+" ends %s.", peer, inSeconds(left))
	default:
		return
	}
	f.command(c.ace("permit renew %s", p.ACEID))
	if p.Held {
		f.Advice = orNull("the answer to that brings it: ace pull")
	}
}
