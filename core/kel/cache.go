package kel

import (
	"container/list"
	"strings"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Weights of a cached state, in events: one takes about 16 KiB, the expanded
// key of the delegation about three times as much.
const (
	keyWeight     = 3
	averageWeight = keyWeight + 5
)

// Cache remembers verified logs, so that a log which comes again costs a
// comparison. It keeps the expanded key of each delegation with it. The logs
// used longest ago go first. Failures are not remembered.
//
// A hit needs the very log that was verified, signatures included. It is
// compared in full: that is several times cheaper than a cryptographic digest
// of it, and at least as strict.
//
// A nil *Cache remembers nothing. A Cache is safe for concurrent use.
type Cache struct {
	bound int // in events

	mu     sync.Mutex // guards the fields below; verification is outside of it
	weight int        // of all entries together, in events
	recent *list.List // of *State, most recently used first
	byTail map[string]*list.Element
}

// NewCache returns a cache for about the given number of logs of ordinary
// length, at most 128 KiB of memory for each. Longer logs count for more; at
// least one log is kept whatever its length.
func NewCache(entries int) *Cache {
	return &Cache{bound: entries * averageWeight, recent: list.New(), byTail: map[string]*list.Element{}}
}

// Verify is the function [Verify], but does not verify a log it remembers
// again: then only the bound on future timestamps is checked.
func (c *Cache) Verify(log wire.Value, now int64) (*State, error) {
	if c == nil {
		return Verify(log, now)
	}
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	if s := c.find(log); s != nil {
		if err := checkFuture(s.LastTS(), now); err != nil {
			return nil, fault.Wrap(fault.InvalidKEL, err)
		}
		return s, nil
	}
	s, err := Verify(log, now)
	if err != nil {
		return nil, err
	}
	s = s.detached()
	c.add(s)
	return s, nil
}

func (c *Cache) find(log wire.Value) *State {
	c.mu.Lock()
	e, ok := c.byTail[tail(log)]
	if ok {
		c.recent.MoveToFront(e)
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	// Comparing takes time, and a state never changes: no need for the lock.
	s := e.Value.(*State)
	if !s.log.Equal(log) {
		return nil
	}
	return s
}

func (c *Cache) add(s *State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byTail[tail(s.log)]; ok {
		c.remove(e)
	}
	c.byTail[tail(s.log)] = c.recent.PushFront(s)
	c.weight += s.weight()
	for c.weight > c.bound && c.recent.Len() > 1 {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	s := c.recent.Remove(e).(*State)
	delete(c.byTail, tail(s.log))
	c.weight -= s.weight()
}

// detached returns s with its log in memory of its own: what is remembered must
// not keep a whole response, whose size is the sender's choice.
func (s *State) detached() *State {
	d := newState(detach(s.log), s.aceID, s.events)
	d.epoch, d.delegated = s.epoch, s.delegated
	return d
}

func detach(v wire.Value) wire.Value {
	switch v.Kind() {
	case wire.String:
		text, _ := v.AsString()
		return wire.NewString(strings.Clone(text))
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = detach(item)
		}
		return wire.NewArray(items...)
	case wire.Object:
		members := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			members[i] = wire.M(strings.Clone(m.Key), detach(m.Value))
		}
		return wire.NewObject(members...)
	}
	return v
}

func (s *State) weight() int { return len(s.events) + keyWeight }

// tail is the key under which a log is looked up: the signature text of its
// last event, or empty for what is no log. Hedged signatures make it differ
// between logs; where somebody makes two logs share one, they take turns.
func tail(log wire.Value) string {
	items := log.Items()
	if len(items) == 0 {
		return ""
	}
	sig, _ := items[len(items)-1].Get("sig")
	value, _ := sig.Get("value")
	text, _ := value.AsString()
	return text
}
