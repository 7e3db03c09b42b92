package relayconf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// check finds what is wrong with the values taken together, puts the public URL
// into its canonical form and fills in the defaults of limits and timeouts.
func (l *loader) check() {
	l.refuse("public_url", l.checkPublicURL())
	l.refuse("listen", checkAddress(l.Listen))
	if l.Data == "" && !l.src.Development {
		l.refuse("data", errors.New("is empty"))
	}
	if l.OpsListen != "" {
		l.refuse("ops_listen", checkAddress(l.OpsListen))
		if l.OpsListen == l.Listen {
			l.refuse("ops_listen", errors.New("is the same as listen"))
		}
	}
	if l.TLSCert != "" && l.TLSKey == "" {
		l.refuse("tls.cert", errors.New("goes with tls.key, which is not set"))
	}
	if l.TLSKey != "" && l.TLSCert == "" {
		l.refuse("tls.key", errors.New("goes with tls.cert, which is not set"))
	}
	if l.LogFormat != FormatText && l.LogFormat != FormatJSON {
		l.refuse("log.format", fmt.Errorf("%q is neither text nor json", l.LogFormat))
	}
	for _, g := range l.WakeGateways {
		if err := relaysvc.CheckWakeGateway(g, l.urls()); err != nil {
			l.refuse("wake.gateways", fmt.Errorf("%q: %w", g, err))
		}
	}
	for _, h := range l.ReservedHandles {
		if !wire.IsHandle(h) {
			l.refuse("reserved_handles", fmt.Errorf("%q is no handle", h))
		}
	}
	if n := l.Limits.BlockPeers; n != 0 && n < wire.MinBlockCap {
		l.refuse("limits.block_peers", fmt.Errorf("%d is less than %d", n, wire.MinBlockCap))
	}
	l.checkTimeouts()
	if len(l.problems) == 0 {
		l.complete()
	}
}

// checkTimeouts looks at those that have to fit each other, where a default is
// one of the two.
func (l *loader) checkTimeouts() {
	t := l.Timeouts
	t.SetDefaults(l.src.Development)
	if t.WakeInterval < time.Second {
		l.refuse("timeouts.wake_interval", errors.New("counts in whole seconds, from 1s"))
	}
	if t.Spread >= t.Drain {
		l.refusePair("timeouts.drain", "timeouts.spread", fmt.Errorf("a drain of %s leaves no time after a spread of %s", t.Drain, t.Spread))
	}
	if l.TLSCert != "" && t.Heartbeat >= t.Write {
		// HTTP/2 ends a stream on which nothing was written for so long.
		l.refusePair("timeouts.heartbeat", "timeouts.write", fmt.Errorf("heartbeats every %s are too rare for a write timeout of %s", t.Heartbeat, t.Write))
	}
}

// refusePair is refuse for two values that do not fit each other, at the place
// of one that was set.
func (l *loader) refusePair(key, other string, err error) {
	if l.failed[key] || l.failed[other] {
		return // with a default in its place there may be nothing wrong
	}
	if l.places[key] == "" {
		key = other
	}
	l.refuse(key, err)
}

// complete asks the relay itself for what is left to check, and for its
// defaults.
func (l *loader) complete() {
	c := l.Config()
	c.Development = l.src.Development
	if err := c.Check(); err != nil {
		l.problems = append(l.problems, Problem{Text: err.Error()})
		return
	}
	l.Limits, l.Timeouts = c.Limits, c.Timeouts
}

func (l *loader) urls() wire.URLPolicy {
	if l.src.Development {
		return wire.Development
	}
	return wire.Production
}

func (l *loader) checkPublicURL() error {
	if l.PublicURL == "" {
		if l.src.Development {
			return nil
		}
		return errors.New("is required: it is what clients sign for")
	}
	url, err := wire.NormalizeRelayURL(l.PublicURL)
	if err == nil {
		err = wire.CheckRelayURL(url, l.urls())
	}
	if err != nil {
		return fmt.Errorf("%q: %w", l.PublicURL, err)
	}
	l.PublicURL = url
	return nil
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is no address with a port, such as 127.0.0.1:8420", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has no port from 0 to 65535", text)
	}
	return nil
}

// Warnings returns what is allowed and most likely not meant.
func (l *Loaded) Warnings() []Problem {
	all := slices.Clone(l.strays)
	warn := func(key, text string) { all = append(all, Problem{Key: key, Text: text}) }
	open := !isLoopback(l.Listen)
	switch {
	case open && l.TLSCert == "" && len(l.TrustedProxies) == 0:
		warn("listen", "others reach "+l.Listen+", and the relay speaks plain HTTP: set tls.cert and tls.key, or trusted_proxies when a proxy does TLS")
	case l.TLSCert == "" && len(l.TrustedProxies) == 0:
		warn("trusted_proxies", "none is set: behind a proxy, all clients would be one client network")
	}
	if l.OpsListen != "" && !isLoopback(l.OpsListen) {
		warn("ops_listen", "others reach "+l.OpsListen+", which asks nobody who they are")
	}
	if l.OpsListen == "" && open {
		warn("ops_listen", "is not set: anybody can read /metrics")
	}
	if l.LogMetadata {
		warn("log.metadata", "is on: the log tells which networks and which callers use the relay")
	}
	for _, p := range l.TrustedProxies {
		if p.Bits() == 0 {
			warn("trusted_proxies", p.String()+" is everybody: any client can choose its network")
		}
	}
	all = append(all, fileWarnings("", l.file, 0o022)...)
	all = append(all, fileWarnings("tls.key", l.TLSKey, 0o077)...)
	all = append(all, fileWarnings("tls.cert", l.TLSCert, 0o022)...)
	if !filepath.IsAbs(l.Data) {
		warn("data", l.Data+" depends on the folder in which the relay is started")
	}
	return all
}

// fileWarnings looks for a file and for permissions that it should not have.
func fileWarnings(key, path string, mask os.FileMode) []Problem {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return []Problem{{Key: key, Text: path + " cannot be looked at: " + errors.Unwrap(err).Error()}}
	}
	if info.Mode().Perm()&mask != 0 {
		return []Problem{{Key: key, Text: fmt.Sprintf("%s has mode %04o, which lets others use it: run chmod %04o %q", path, info.Mode().Perm(), info.Mode().Perm()&^mask, path)}}
	}
	return nil
}

// isLoopback reports whether only this machine reaches a listener at address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Exposed reports whether others reach the relay over plain HTTP without a
// proxy, which is the warning that a start gives as well.
func (l *Loaded) Exposed() bool {
	return !isLoopback(l.Listen) && l.TLSCert == "" && len(l.TrustedProxies) == 0
}
