package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/relayapi"
)

// life is one run of the relay under load.
type life struct {
	*round
	plan   plan
	relay  *relay
	client *client
	ctx    context.Context
	source func(worker int) *rand.Rand // of random numbers
	// mortal: the relay may end by itself at any time.
	mortal          bool
	audits, answers atomic.Int64
}

// errOver ends a worker: the relay gave no answer, as the dead do.
var errOver = errors.New("no answer")

// ask sends a request and returns the body of the answer and its outcome. Its
// error is errOver.
func (l *life) ask(r request) (body []byte, outcome string, err error) {
	if r.network == "" {
		r.network = l.anyNetwork()
	}
	body, outcome, err = l.client.do(l.ctx, r)
	if err != nil {
		l.unanswered(r, err)
		return nil, "", errOver
	}
	if l.answers.Add(1) == l.plan.answers {
		l.endAfter(l.plan.after)
	}
	if outcome == string(relayapi.InternalError) || outcome == "no code" {
		if !l.mortal {
			l.findings.add(service, "%s %s: %s\n%s", r.method, r.path, body, l.relay.stderr)
		}
		return nil, "", errOver
	}
	return body, outcome, nil
}

// unanswered judges a missing answer: only a relay that dies may give none.
func (l *life) unanswered(r request, err error) {
	switch {
	case l.ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		l.findings.add(service, "%s %s: no answer within %s", r.method, r.path, patience)
	case !l.mortal && !l.relay.dying.Load():
		l.findings.add(service, "%s %s: %v, and nobody killed the relay\n%s", r.method, r.path, err, l.relay.stderr)
	}
}

// remember keeps an authenticated request that was answered ok, to send it
// again later.
func (a *agent) remember(r request, now int64) {
	const kept = 12
	if a.spent = append(a.spent, spent{r, now}); len(a.spent) > kept {
		a.spent = a.spent[len(a.spent)-kept:]
	}
}
