package core

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

const (
	// slowSeconds is how long an attempt may take before its route counts as slow.
	slowSeconds = 10
	// maxSlowRoutes bounds the routes that are remembered.
	maxSlowRoutes = 4096
)

// slowRoutes are the routes to peers by which it took long the last time, as by a
// relay that is connected to and says nothing. A pass serves few peers at a time,
// and some that wait for such relays would keep all others from theirs: however
// many there are, a pass waits for few of them, and behind the others.
type slowRoutes struct {
	mu     sync.Mutex
	turn   int64            // guarded by mu, as what follows
	served map[string]int64 // turn of the last time, by route
}

// known reports whether there is any slow route.
func (s *slowRoutes) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.served) > 0
}

// sort puts peers with slow routes behind the others, the one first that has waited
// longest.
func (s *slowRoutes) sort(peers []string, route map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(peers, func(a, b string) int { return cmp.Compare(s.served[route[a]], s.served[route[b]]) })
}

// slowPass is what one pass does by slow routes: it tries each once, and not more
// of them than so many.
type slowPass struct {
	*slowRoutes
	most  int
	tried map[string]bool // guarded by mu
}

func (s *slowRoutes) pass(most int) *slowPass {
	return &slowPass{slowRoutes: s, most: most, tried: map[string]bool{}}
}

// takes reports whether the pass serves another peer by a route.
func (p *slowPass) takes(route string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.served[route] == 0 {
		return true
	}
	if p.tried[route] || len(p.tried) >= p.most {
		return false
	}
	p.tried[route] = true
	return true
}

// note remembers how it went by a route.
func (p *slowPass) note(route string, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slow {
		delete(p.served, route)
		return
	}
	if p.served == nil || len(p.served) >= maxSlowRoutes {
		p.served = map[string]int64{}
	}
	p.turn++
	p.served[route], p.tried[route] = p.turn, true
}

// eachPeerInReach is eachPeer for what goes to a peer's relays, and reports whether
// that was slow. It leaves peers to the next pass by whose slow route this one has
// done enough: what is due to them stays due.
func (e *Endpoint) eachPeerInReach(ctx context.Context, peers []string, do func(ctx context.Context, peer string) (slow bool, err error)) error {
	pass := e.slow.pass(e.config.PeersAtOnce)
	if pass.known() {
		routes := map[string]string{}
		for _, peer := range peers {
			routes[peer] = e.route(ctx, peer)
		}
		pass.sort(peers, routes)
	}
	return e.eachPeer(ctx, peers, func(ctx context.Context, peer string) error {
		route := e.route(ctx, peer)
		if !pass.takes(route) {
			return nil
		}
		slow, err := do(ctx, peer)
		if ctx.Err() == nil {
			pass.note(route, slow)
		}
		return err
	})
}

// route is that of a peer. One that cannot be told now is that of nobody else.
func (e *Endpoint) route(ctx context.Context, peer string) string {
	route, err := e.node.Route(ctx, peer)
	if err != nil || route == "" {
		return peer
	}
	return route
}

// timed does something and reports whether that took long.
func (e *Endpoint) timed(do func()) (slow bool) {
	began := e.config.Clock()
	do()
	return e.config.Clock()-began >= slowSeconds
}
