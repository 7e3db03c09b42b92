package relaysvc

import (
	"net/http"
	"net/netip"
	"sync"
)

// forwarded watches for a proxy that the operator forgot to name: behind it all
// clients would be one client network (07#client-networks). Two clients that
// one untrusted peer speaks for give it away. Somebody can pretend to be a
// proxy, and so it is said once and changes nothing.
type forwarded struct {
	mu   sync.Mutex
	said bool       // guarded by mu, as what follows
	peer netip.Addr // that spoke for a client last
	hop  string     // and what it said of it
}

// notice looks at the header of one request and reports whether it is the one
// that gives a proxy away.
func (f *forwarded) notice(peer netip.Addr, hop string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said {
		return false
	}
	f.said = f.peer == peer && f.hop != hop
	f.peer, f.hop = peer, hop
	return f.said
}

// watchForwarding warns of a proxy that is not trusted.
func (s *Server) watchForwarding(r *http.Request) {
	hop := r.Header.Get(headerForwarded)
	if hop == "" {
		return
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || s.trusted(peer.Addr().Unmap()) {
		return
	}
	if s.forwarded.notice(peer.Addr(), hop) {
		s.log.Warn("one peer that is not trusted forwards requests of several clients: is it a proxy that trusted_proxies should name?")
	}
}
