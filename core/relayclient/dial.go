package relayclient

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// dialTimeout bounds the connection to one address, so that a dead one leaves
// time for the next.
const dialTimeout = 5 * time.Second

// resolver returns the addresses of a host name.
type resolver func(ctx context.Context, host string) ([]netip.Addr, error)

func systemResolver(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// dialer connects to relays under one address policy. It resolves and judges
// anew at every dial, and hands the system only addresses it has judged, so
// that no second resolution can give another answer (07#client-rules).
type dialer struct {
	resolve resolver
	allowed func(netip.Addr) bool
}

// anyAddress is the policy for relays that the owner configured.
func anyAddress(netip.Addr) bool { return true }

// unblocked is the policy for relay URLs taken from descriptors.
func unblocked(policy wire.URLPolicy) func(netip.Addr) bool {
	return func(a netip.Addr) bool { return !relayapi.Blocked(a, policy) }
}

// DialContext connects to address, a host and a port. Code: blocked_address
// when any address of the host is blocked.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := d.validated(ctx, host)
	if err != nil {
		return nil, err
	}
	return dialFirst(ctx, network, addrs, uint16(port))
}

// validated returns the addresses of host. One blocked address among them
// refuses the host: it is what an attacker's name server mixes in.
func (d *dialer) validated(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if !d.allowed(a) {
			return nil, fault.New(fault.BlockedAddress, "relay host %q has the blocked address %s", host, a)
		}
	}
	return addrs, nil
}

func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal}, nil
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the host has no address")
	}
	return addrs, nil
}

// dialFirst connects to the first address that answers.
func dialFirst(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	var failure error
	for _, a := range addrs {
		conn, err := d.DialContext(ctx, network, netip.AddrPortFrom(a.Unmap(), port).String())
		if err == nil {
			return conn, nil
		}
		failure = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failure
}
