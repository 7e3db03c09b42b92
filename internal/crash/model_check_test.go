package crash

import (
	"maps"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestModel lets a relay misbehave in every way that the model is there to
// see, and behave in ways that only look like it.
func TestModel(t *testing.T) {
	for name, c := range map[string]struct {
		want []kind
		run  func(*bench)
	}{
		"good": {nil, func(b *bench) {
			b.accept("a", "b", "c")
			b.scan("1-1 a", "1-2 b", "1-3 c")
			b.ack("1-2", true)
			b.scan("1-3 c")
		}},
		"an accepted packet is missing":     {[]kind{lost}, func(b *bench) { b.accept("a", "b"); b.scan("1-2 b") }},
		"a packet that nobody heard of":     {nil, func(b *bench) { b.send("a", ""); b.scan() }},
		"one is there all the same":         {nil, func(b *bench) { b.send("a", ""); b.scan("1-1 a"); b.scan("1-1 a") }},
		"and then it is gone":               {[]kind{lost}, func(b *bench) { b.send("a", ""); b.scan("1-1 a"); b.scan() }},
		"it was not there, and then it is":  {[]kind{back}, func(b *bench) { b.send("a", ""); b.scan(); b.scan("1-1 a") }},
		"an acknowledged entry is served":   {[]kind{back}, func(b *bench) { b.accept("a"); b.scan("1-1 a"); b.ack("1-1", true); b.scan("1-1 a") }},
		"an acknowledgement got no answer":  {nil, func(b *bench) { b.accept("a"); b.scan("1-1 a"); b.ack("1-1", false); b.scan("1-1 a"); b.scan("1-1 a") }},
		"it got none and took place":        {nil, func(b *bench) { b.accept("a"); b.scan("1-1 a"); b.ack("1-1", false); b.scan() }},
		"it took place, and then it didn't": {[]kind{back}, func(b *bench) { b.accept("a"); b.scan("1-1 a"); b.ack("1-1", false); b.scan(); b.scan("1-1 a") }},
		"it deleted the newer half": {[]kind{lost}, func(b *bench) {
			b.accept("a", "b")
			b.scan("1-1 a", "1-2 b")
			b.ack("1-2", false)
			b.scan("1-1 a")
		}},
		"an entry below one that was served": {[]kind{outOfOrder}, func(b *bench) {
			b.send("a", "")
			b.send("b", "")
			b.scan("1-5 b", "1-7 a")
			b.send("c", "")
			b.scan("1-5 b", "1-6 c", "1-7 a")
		}},
		"another stream ID":                 {[]kind{outOfOrder}, func(b *bench) { b.accept("a"); b.scan("1-1 a"); b.scan("1-2 a") }},
		"accepted first and queued later":   {[]kind{outOfOrder}, func(b *bench) { b.accept("a", "b"); b.scan("1-1 b", "1-2 a") }},
		"two entries of one packet":         {[]kind{outOfOrder, twice}, func(b *bench) { b.accept("a"); b.scan("1-1 a", "1-2 a") }},
		"a packet of somebody else":         {[]kind{altered}, func(b *bench) { b.scan("1-1 z") }},
		"a refused packet is served":        {[]kind{back}, func(b *bench) { b.send("a", "rate_limited"); b.scan("1-1 a") }},
		"a packet with a permit is refused": {[]kind{registration}, func(b *bench) { b.send("a", "not_permitted") }},
		"an expired entry is served":        {[]kind{back}, func(b *bench) { b.accept("a"); b.expire(200); b.scan("1-1 a") }},
		"not registered any more":           {[]kind{registration}, func(b *bench) { b.look(unregistered) }},
		"an unregistration takes the queue": {nil, func(b *bench) { b.accept("a"); b.leave(true); b.look(unregistered) }},
		"it leaves the queue behind":        {[]kind{back}, func(b *bench) { b.accept("a"); b.leave(true); b.enter(); b.scan("1-1 a") }},
		"it is forgotten":                   {[]kind{registration}, func(b *bench) { b.leave(true); b.look(registered) }},
		"it got no answer":                  {nil, func(b *bench) { b.accept("a"); b.leave(false); b.look(registered); b.scan("1-1 a") }},
		"it got none and took place by half": {[]kind{lost}, func(b *bench) {
			b.accept("a")
			b.leave(false)
			b.look(registered)
			b.scan()
		}},
		"a packet is accepted for nobody": {[]kind{registration}, func(b *bench) { b.leave(true); b.accept("a") }},
		"a stream is late": {nil, func(b *bench) {
			b.accept("a")
			opened := b.moment()
			b.scan("1-1 a")
			b.ack("1-1", true)
			b.stream(opened, entry("1-1 a"))
		}},
		"a new stream is late": {[]kind{back}, func(b *bench) {
			b.accept("a")
			b.scan("1-1 a")
			b.ack("1-1", true)
			b.stream(b.moment(), entry("1-1 a"))
		}},
		"acknowledged before the sender heard": {nil, func(b *bench) {
			p := newPacket("a")
			epoch := b.sending(p)
			b.scan("1-1 a")
			b.ack("1-1", true)
			b.sent(p, epoch, ok)
			b.scan()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{queue: newQueue("it", &findings{})}
			b.enter()
			c.run(b)
			got := slices.Sorted(maps.Keys(b.report.count))
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q (%q), want %q", got, b.report.all(), c.want)
			}
		})
	}
}

// bench drives a model by hand.
type bench struct{ *queue }

func newPacket(id string) *packet {
	return &packet{messageID: id, raw: object(id).Canonical(), permit: []byte("{}"), expires: 100}
}

func object(id string) wire.Value { return wire.NewObject(wire.M("messageId", wire.NewString(id))) }

// entry reads "1-1 a" as the entry with that stream ID and message ID.
func entry(text string) relayapi.Entry {
	return relayapi.Entry{StreamID: text[:3], Packet: object(text[4:])}
}

func (b *bench) enter() { b.registering(); b.entered() }

func (b *bench) send(id, outcome string) {
	p := newPacket(id)
	b.sent(p, b.sending(p), outcome)
}

func (b *bench) accept(ids ...string) {
	for _, id := range ids {
		b.send(id, ok)
	}
}

func (b *bench) scan(entries ...string) {
	s := b.scanning()
	for _, e := range entries {
		b.serve(s, entry(e))
	}
	b.scanned(s)
}

func (b *bench) ack(through string, answered bool) {
	b.acknowledging(through)
	if answered {
		b.acknowledged()
	}
}

func (b *bench) leave(answered bool) {
	before := b.leaving()
	if answered {
		b.left(before)
	}
}
