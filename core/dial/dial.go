// Package dial connects to hosts that a stranger has named: it resolves a name
// once, judges every address, and connects only to one that it has judged, so
// that no second resolution can give another answer (07#client-rules). The
// list of blocked addresses is relayapi's.
package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// timeout bounds the connection to one address, so that a dead one leaves time
// for the next.
const timeout = 5 * time.Second

// Resolver returns the addresses of a host name.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

// SystemResolver asks the resolver of the system.
func SystemResolver(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Dialer connects under one address policy. It resolves and judges anew at
// every dial.
type Dialer struct {
	Resolve Resolver
	Allowed func(netip.Addr) bool
}

// Any is the policy for hosts that the owner configured.
func Any(netip.Addr) bool { return true }

// DialContext connects to address, a host and a port. Code: blocked_address
// when any address of the host is blocked.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
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
	return first(ctx, network, addrs, uint16(port))
}

// validated returns the addresses of host. One blocked address among them
// refuses the host: it is what an attacker's name server mixes in.
func (d *Dialer) validated(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if !d.Allowed(a) {
			return nil, fault.New(fault.BlockedAddress, "host %q has the blocked address %s", host, a)
		}
	}
	return addrs, nil
}

func (d *Dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal}, nil
	}
	addrs, err := d.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the host has no address")
	}
	return addrs, nil
}

// first connects to the first address that answers.
func first(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
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
