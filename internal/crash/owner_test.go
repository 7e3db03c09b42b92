package crash

import (
	"bytes"
	"math/rand/v2"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// owner does at the relay what the agent's program would, one thing after
// another, until the relay gives no answer.
type owner struct {
	*life
	*agent
	random *rand.Rand
}

func (o *owner) run() {
	if o.audit() != nil {
		return
	}
	if n := o.audits.Add(1); n == int64(len(o.agents)) && o.plan.answers == compared {
		o.endAfter(0)
	}
	for o.act() == nil {
	}
}

func (o *owner) act() error {
	if !o.is(registered) {
		return o.register()
	}
	switch n := o.random.IntN(100); {
	case n < 40:
		return o.scan()
	case n < 70:
		return o.acknowledge()
	case n < 78:
		return o.replay()
	case n < 88:
		return o.setBlock()
	case n < 91:
		return o.checkBlock()
	case n < 93:
		return o.publish()
	case n < 95:
		return o.setWake()
	case n < 98:
		return o.leave()
	}
	return o.lookUp(&o.describing)
}

// audit compares everything with the model, after a restart.
func (o *owner) audit() error {
	if err := o.scan(); err != nil {
		return err
	}
	for range 3 {
		if err := o.replay(); err != nil {
			return err
		}
	}
	if !o.is(registered) {
		return o.register()
	}
	for _, check := range []func() error{o.checkBlock, func() error { return o.lookUp(&o.describing) }, func() error { return o.lookUp(&o.card) }, o.rename, o.keepWake, o.resend, o.publish} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// authenticated sends a request of the owner.
func (o *owner) authenticated(r request, err error) (body []byte, outcome string, over error) {
	if err != nil {
		o.t.Error(err)
		return nil, "", errOver
	}
	body, outcome, over = o.ask(r)
	if outcome == ok {
		o.remember(r, o.now())
	}
	return body, outcome, over
}

func (o *owner) unexpected(what, outcome string) error {
	o.findings.add(service, "%s: %s was refused with %s", o.name, what, outcome)
	return errOver
}

// scan reads the queue from its start to its end.
func (o *owner) scan() error {
	s := o.scanning()
	limit := []int64{2, 10, wire.MaxInboxPage, wire.MaxInboxPage}[o.random.IntN(4)]
	for since := relayapi.Dash; ; {
		body, outcome, err := o.authenticated(o.inbox(since, limit, o.now()))
		switch {
		case err != nil:
			return err
		case outcome == string(fault.NotRegistered):
			o.look(unregistered)
			o.forgetAll()
			return nil
		case outcome != ok:
			return o.unexpected("a page", outcome)
		}
		o.pending = nil
		if o.look(registered) {
			return o.scan()
		}
		entries, err := relayapi.ParseInboxPage(body, since)
		if err != nil {
			o.findings.add(outOfOrder, "%s: a page after %s: %v", o.name, since, err)
			return errOver
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			o.serve(s, e)
		}
		since = entries[len(entries)-1].StreamID
	}
	o.scanned(s)
	o.count.scans.Add(1)
	return nil
}

// acknowledge deletes some of the queue, often the oldest third.
func (o *owner) acknowledge() error {
	ids := o.streamIDs()
	if len(ids) == 0 {
		return o.scan()
	}
	through := ids[o.random.IntN(len(ids))]
	o.acknowledging(through)
	_, outcome, err := o.authenticated(o.ack(through, o.now()))
	if err != nil {
		return err
	}
	if outcome != ok {
		return o.unexpected("an acknowledgement", outcome)
	}
	o.acknowledged()
	o.count.acks.Add(1)
	return nil
}

// replay sends a request again that was answered: its nonce is spent.
func (o *owner) replay() error {
	const fresh = wire.TimestampWindowSeconds - 30
	for len(o.spent) > 0 && o.spent[0].at < o.now()-fresh {
		o.spent = o.spent[1:]
	}
	if len(o.spent) == 0 {
		return nil
	}
	r := o.spent[o.random.IntN(len(o.spent))].request
	_, outcome, err := o.ask(r)
	if err != nil {
		return err
	}
	if outcome != string(relayapi.Replay) && outcome != string(fault.NotRegistered) {
		o.findings.add(nonce, "%s: %s %s was answered before, and again with %s", o.name, r.method, r.path, outcome)
		return errOver
	}
	o.count.replays.Add(1)
	return nil
}

// register registers the agent, with a request that got no answer if there is
// one.
func (o *owner) register() error {
	body := o.pending
	if body == nil || o.random.IntN(2) == 0 {
		var err error
		if body, err = o.registration(o.now()); err != nil {
			o.t.Error(err)
			return errOver
		}
	}
	o.pending = body
	o.registering()
	_, outcome, err := o.ask(request{method: "POST", path: "/v1/register", body: body})
	switch {
	case err != nil:
		return err
	case outcome == string(fault.StaleTimestamp):
		o.pending = nil // the clock was put forward
		return nil
	case outcome != ok:
		return o.unexpected("a registration", outcome)
	}
	o.pending = nil
	o.entered()
	o.count.registrations.Add(1)
	return nil
}

// leave unregisters the agent.
func (o *owner) leave() error {
	r, err := o.unregister(o.now())
	before := o.leaving()
	_, outcome, err := o.authenticated(r, err)
	switch {
	case err != nil:
		return err
	case outcome != ok:
		return o.unexpected("an unregistration", outcome)
	}
	o.left(before)
	o.forgetAll()
	if o.random.IntN(2) == 0 {
		return errOver // and stays so into the next life
	}
	return nil
}

// forgetAll is what an unregistration does to all but the queue.
func (a *agent) forgetAll() {
	for _, d := range []*documents{&a.describing, &a.card} {
		d.held, d.asked = document{}, document{}
	}
	a.block = block{peer: a.block.peer}
	a.wake = wake{}
}

// setBlock blocks or unblocks the peer.
func (o *owner) setBlock() error {
	b := &o.block
	b.asked = max(b.asked, b.revision) + 1
	blocked := !b.blocked
	_, outcome, err := o.authenticated(o.blocking(blocked, b.asked, o.now()))
	switch {
	case err != nil:
		return err
	case outcome != ok:
		return o.unexpected("a block", outcome)
	}
	b.revision, b.blocked = b.asked, blocked
	return nil
}

// checkBlock finds the block as it was accepted: its revision is used up, and
// the peer's packets are refused or not.
func (o *owner) checkBlock() error {
	b := &o.block
	if b.revision == 0 {
		return nil
	}
	_, outcome, err := o.authenticated(o.blocking(!b.blocked, b.revision, o.now()))
	switch {
	case err != nil:
		return err
	case outcome != string(relayapi.StaleRevision):
		o.findings.add(registration, "%s: block revision %d was accepted, and again with %s", o.name, b.revision, outcome)
		return errOver
	}
	if b.asked != b.revision {
		return o.setBlock() // what came of the newest one is not known
	}
	p := o.envelopes.packet(o.random, b.peer, o.id.ACEID(), o.now())
	p.peer = true
	outcome, err = o.send(o.agent, p, b.peer, true, b.blocked)
	if err == nil && b.blocked && outcome == ok {
		o.findings.add(registration, "%s: a packet of a blocked peer was accepted", o.name)
	}
	return err
}

// publish publishes what is missing or about to expire, and now and then
// anew.
func (o *owner) publish() error {
	for _, kind := range []struct {
		at   string
		docs *documents
		sign func(int64) (document, error)
	}{{"/v1/descriptor", &o.describing, o.describe}, {"/v1/card", &o.card, o.introduce}} {
		d := kind.docs
		if d.held.raw != nil && d.asked.raw == nil && d.held.expires > o.now()+3*86400 && o.random.IntN(10) > 0 {
			continue
		}
		signed, err := kind.sign(o.now())
		if err != nil {
			o.t.Error(err)
			return errOver
		}
		d.asked = signed
		_, outcome, err := o.ask(request{method: "POST", path: kind.at, body: signed.raw})
		switch {
		case err != nil:
			return err
		case outcome != ok:
			return o.unexpected("a document", outcome)
		}
		d.held, d.asked = signed, document{}
		o.holds = o.holds || d == &o.card
	}
	return nil
}

// rename claims another handle, which nobody may who holds one: not after
// unregistering either.
func (o *owner) rename() error {
	if !o.holds {
		return nil
	}
	signed, err := o.introduceAs(o.handle+"-x", o.now())
	if err != nil {
		o.t.Error(err)
		return errOver
	}
	_, outcome, err := o.ask(request{method: "POST", path: "/v1/card", body: signed.raw})
	if err != nil {
		return err
	}
	if outcome != string(fault.InvalidArgument) {
		o.findings.add(registration, "%s holds %s, and may claim another handle: %s", o.name, o.handle, outcome)
		return errOver
	}
	return nil
}

// lookUp finds the document that was accepted.
func (o *owner) lookUp(d *documents) error {
	for _, path := range d.paths {
		if err := o.lookUpAt(path, d); err != nil {
			return err
		}
	}
	return nil
}

func (o *owner) lookUpAt(path string, d *documents) error {
	body, outcome, err := o.ask(request{method: "GET", path: path})
	if err != nil {
		return err
	}
	if outcome != ok {
		body = nil
	}
	if d.asked.raw != nil && bytes.Equal(body, d.asked.raw) {
		d.held, d.asked = d.asked, document{}
	}
	if expired := d.held.raw != nil && d.held.expires <= o.now(); !expired && !bytes.Equal(body, d.held.raw) {
		o.findings.add(registration, "%s: %s is not what was published (%s)", o.name, path, outcome)
		return errOver
	}
	return nil
}

// resend sends packets again whose sending got no answer and that are queued
// all the same.
func (o *owner) resend() error {
	for i, p := range o.unheard() {
		if i == 2 {
			break
		}
		if _, err := o.transmit(o.agent, p); err != nil {
			return err
		}
		o.count.resends.Add(1)
	}
	return nil
}
