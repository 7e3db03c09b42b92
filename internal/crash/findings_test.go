package crash

import (
	"fmt"
	"sync"
)

// kind says which promise of the relay a finding breaks.
type kind string

const (
	lost         kind = "lost"         // an accepted packet is gone before it was acknowledged
	outOfOrder   kind = "out of order" // stream IDs and the order of serving disagree
	back         kind = "back"         // an entry that was acknowledged or erased is served
	twice        kind = "twice"        // one packet is queued more than once
	altered      kind = "altered"      // a packet is not the one that was sent, or not to this recipient
	nonce        kind = "nonce"        // a spent nonce is taken again
	registration kind = "registration" // an accepted registration, block or document does not hold
	files        kind = "files"        // the store is damaged, or keeps what it must have erased
	service      kind = "service"      // the relay answers or ends as it must not
)

// findings collects what a round found. A round with any has failed.
type findings struct {
	mu    sync.Mutex
	count map[kind]int // guarded by mu, as what follows
	first []string     // the first ones, in words
}

const findingsKept = 20

func (f *findings) add(k kind, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[kind]int{}
	}
	f.count[k]++
	if len(f.first) < findingsKept {
		f.first = append(f.first, string(k)+": "+fmt.Sprintf(format, args...))
	}
}

func (f *findings) of(k kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[k]
}

func (f *findings) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.first...)
}
