package dial_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/dial"
	"github.com/ace-toolkit/ace/core/fault"
)

func loopback(a netip.Addr) bool { return a.IsLoopback() }

// TestDial connects to what the resolver answered and the policy allows, asking
// the resolver once.
func TestDial(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().String()[strings.LastIndexByte(ln.Addr().String(), ':'):]
	failure := errors.New("no such host")
	for _, c := range []struct {
		name, host string
		addrs      []string
		want       error // nil: connected
		asked      int
	}{
		{"a name", "relay.example", []string{"127.0.0.1"}, nil, 1},
		{"a mapped address", "relay.example", []string{"::ffff:127.0.0.1"}, nil, 1},
		{"a dead address first", "relay.example", []string{"127.0.0.77", "127.0.0.1"}, nil, 1},
		{"one that is not allowed", "relay.example", []string{"127.0.0.1", "192.0.2.1"}, fault.BlockedAddress, 1},
		{"a literal", "127.0.0.1", nil, nil, 0},
		{"a literal that is not allowed", "192.0.2.1", nil, fault.BlockedAddress, 0},
		{"a name without an answer", "relay.example", nil, failure, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			d := dial.Dialer{Allowed: loopback, Resolve: func(_ context.Context, host string) (addrs []netip.Addr, err error) {
				if asked++; host != c.host {
					t.Errorf("asked for %s", host)
				}
				for _, s := range c.addrs {
					addrs = append(addrs, netip.MustParseAddr(s).Unmap())
				}
				if addrs == nil {
					err = failure
				}
				return addrs, err
			}}
			conn, err := d.DialContext(t.Context(), "tcp", c.host+port)
			if err == nil {
				conn.Close()
			}
			if !errors.Is(err, c.want) || asked != c.asked {
				t.Fatalf("error %v, asked %d times", err, asked)
			}
		})
	}
}
