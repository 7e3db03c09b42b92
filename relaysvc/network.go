package relaysvc

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/ace-toolkit/ace/core/relayapi"
)

// clientNetwork returns the client network of a request as text
// (07#client-networks).
func (s *Server) clientNetwork(r *http.Request) string {
	return relayapi.ClientNetwork(s.clientAddress(r)).String()
}

// clientAddress is the connection's peer address. When that is a trusted
// proxy, it is the last address of X-Forwarded-For that is not one: what
// stands before it, the client may have written itself.
func (s *Server) clientAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values(headerForwarded), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusted(client); i-- {
		addr, ok := hop(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		client = addr.Unmap()
	}
	return client
}

// hop returns the address that a proxy wrote. Some write its port as well.
func hop(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr, true
	}
	both, err := netip.ParseAddrPort(text)
	return both.Addr(), err == nil
}

func (s *Server) trusted(addr netip.Addr) bool {
	for _, p := range s.config.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
