package relayapi

import (
	"net/netip"

	"github.com/ace-toolkit/ace/core/wire"
)

// ClientNetwork returns the client network of an address: its IPv4 /24 or IPv6
// /56, an IPv4-mapped address counting as IPv4 (07#client-networks). It is the
// zero Prefix for the zero Addr.
func ClientNetwork(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := wire.ClientNetworkPrefixIPv6
	if addr.Is4() {
		bits = wire.ClientNetworkPrefixIPv4
	}
	p, _ := addr.Prefix(bits) // fails for the zero Addr alone
	return p
}

// The blocked ranges of 07#client-rules, in the order of the text.
var (
	blockedIPv4 = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
	blockedIPv6 = prefixes(
		"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
		"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	)
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Blocked reports whether a client must not connect to addr for a relay URL
// taken from a descriptor, nor a relay for a wake gateway (07#client-rules).
// IPv4-mapped and NAT64 addresses are judged by the IPv4 address they embed; an
// address with a zone is blocked. Development allows loopback: 127.0.0.0/8, also
// IPv4-mapped, and ::1.
func Blocked(addr netip.Addr, policy wire.URLPolicy) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return true
	}
	addr = addr.Unmap()
	if addr.IsLoopback() {
		return policy != wire.Development
	}
	if nat64.Contains(addr) {
		embedded := addr.As16()
		addr = netip.AddrFrom4([4]byte(embedded[12:]))
	}
	ranges := blockedIPv6
	if addr.Is4() {
		ranges = blockedIPv4
	}
	for _, p := range ranges {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// Unblocked returns the test of an address that Blocked decides, for a dialer.
func Unblocked(policy wire.URLPolicy) func(netip.Addr) bool {
	return func(a netip.Addr) bool { return !Blocked(a, policy) }
}

// BlockedText is Blocked of an address as text. What is no address literal in
// its plain form is blocked (07#client-rules).
func BlockedText(s string, policy wire.URLPolicy) bool {
	addr, err := netip.ParseAddr(s)
	return err != nil || Blocked(addr, policy)
}
