package crash

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// queueFull is how many packets the senders let stand in a queue.
const queueFull = 48

// sender sends packets to all agents until the relay gives no answer.
func (l *life) sender(random *rand.Rand, agents []*agent) {
	for {
		to := agents[random.IntN(len(agents))]
		from := l.senders[random.IntN(len(l.senders))]
		if to.size() >= queueFull {
			if l.ctx.Err() != nil || l.pause() != nil {
				return
			}
			continue
		}
		p := l.envelopes.packet(random, from, to.id.ACEID(), l.now())
		if _, err := l.send(to, p, from, random.IntN(6) > 0, false); err != nil {
			return
		}
	}
}

// pause keeps a sender that has nothing to do from spinning, and reports whether
// the relay still answers. The answer is none of those after which the relay is
// killed: full queues would else leave the owners no time to empty them.
func (l *life) pause() error {
	select {
	case <-l.ctx.Done():
	case <-time.After(2 * time.Millisecond):
	}
	r := request{method: "GET", path: "/health", network: l.anyNetwork()}
	if _, _, err := l.client.do(l.ctx, r); err != nil {
		l.unanswered(r, err)
		return errOver
	}
	return nil
}

// send sends a new packet, with a permit or as a stranger.
func (l *life) send(to *agent, p *packet, from string, permitted, blocked bool) (outcome string, err error) {
	now := l.now()
	p.network, p.expires = network(l.round.networks.Add(1)), now+wire.ContactRequestTTLSeconds
	if permitted {
		p.expires = now + wire.OfflineWindowSeconds
		if p.permit, err = to.permit(from, now); err != nil {
			l.t.Error(err)
			return "", errOver
		}
	}
	p.blocked = blocked
	return l.transmit(to, p)
}

// transmit sends a packet, for the first time or again.
func (l *life) transmit(to *agent, p *packet) (string, error) {
	epoch := to.sending(p)
	_, outcome, err := l.ask(request{method: "POST", path: "/v1/send", body: relayapi.SendBody(p.raw, p.permit), network: p.network})
	to.sent(p, epoch, outcome)
	switch outcome {
	case ok:
		l.count.sends.Add(1)
	case "", string(fault.NotPermitted), string(relayapi.RateLimited), string(relayapi.RecipientInboxFull):
	default:
		l.findings.add(service, "%s: a packet was refused with %s", to.name, outcome)
	}
	return outcome, err
}

// network is an address, mostly of a client network of its own.
func network(n int64) string { return fmt.Sprintf("10.%d.%d.1", n>>8&0xff, n&0xff) }

func (l *life) anyNetwork() string { return network(l.round.networks.Add(1)) }

// listener follows the agent's stream, and opens it again when it ends, until
// the relay is gone.
func (l *life) listener(random *rand.Rand, a *agent) {
	for l.ctx.Err() == nil {
		select {
		case <-l.relay.dead:
			return
		default:
		}
		since := a.cursor
		if random.IntN(4) == 0 {
			since = relayapi.Dash
		}
		opened := a.moment()
		r, err := a.listen(since, l.now())
		if err != nil {
			l.t.Error(err)
			return
		}
		r.network = l.anyNetwork()
		if !l.follow(random, a, r, opened) {
			return
		}
	}
}

// follow reads one stream and reports whether another may be opened.
func (l *life) follow(random *rand.Rand, a *agent, r request, opened int64) bool {
	resp, err := l.client.open(l.ctx, r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return l.pause() == nil
	}
	last := ""
	for events := relayclient.NewEventReader(resp.Body); ; {
		e, err := events.Next()
		if err != nil {
			return true
		}
		if !e.HasID {
			continue
		}
		entry, err := relayapi.ParsePacketEvent(e.ID, e.Data)
		if err != nil || last != "" && wire.CompareStreamIDs(entry.StreamID, last) <= 0 {
			l.findings.add(outOfOrder, "%s: a stream has %s after %s (%v)", a.name, e.ID, last, err)
			return false
		}
		last = entry.StreamID
		a.stream(opened, entry)
		a.cursor = last
		l.count.events.Add(1)
		if random.IntN(40) == 0 {
			return true
		}
	}
}
