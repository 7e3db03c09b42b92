package delivery

import (
	"slices"
	"sync"
)

const (
	detourSeconds = 300
	maxDetours    = 1024
)

// detours are relays of peers that did not take a packet of the core profile
// which a later one of the same peer took. They are tried last for a while: a
// peer that lists a relay which never answers must not hold up the inbox with
// each of its messages. 06#receipts has no order of relays, as the Outbox has.
type detours struct {
	mu    sync.Mutex
	until map[detour]int64
}

type detour struct{ peer, relay string }

// order returns the relays to try, those that failed lately at the end.
func (d *detours) order(peer string, relays []string, now int64) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var good, failing []string
	for _, relay := range relays {
		until := d.until[detour{peer, relay}]
		if now < until && until <= now+detourSeconds { // a clock set back excludes none
			failing = append(failing, relay)
		} else {
			good = append(good, relay)
		}
	}
	return append(good, failing...)
}

// took notes that a relay took the packet, and those tried before it did not.
func (d *detours) took(peer string, tried []string, by string, now int64) {
	failed := tried[:max(slices.Index(tried, by), 0)]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil || len(d.until)+len(failed) > maxDetours {
		d.until = map[detour]int64{}
	}
	for _, relay := range failed[:min(len(failed), maxDetours)] {
		d.until[detour{peer, relay}] = now + detourSeconds
	}
}
