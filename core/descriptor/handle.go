package descriptor

import (
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// HandleAddress is @name@host in canonical form (04#card-record). Home is the
// relay to ask: https://host, or http://host for a loopback host under
// Development.
type HandleAddress struct{ Name, Host, Home string }

// String returns @name@host.
func (a HandleAddress) String() string { return "@" + a.Name + "@" + a.Host }

// ParseHandleAddress reads a handle address as a person types it: with or
// without the leading @ and in any ASCII case (04#card-record). A port that is
// the scheme's own is dropped, as in 02#relay-urls. Code: invalid_argument.
func ParseHandleAddress(text string, policy wire.URLPolicy) (HandleAddress, error) {
	name, host, ok := strings.Cut(wire.LowerASCII(strings.TrimPrefix(text, "@")), "@")
	if !ok || !wire.IsHandle(name) {
		return HandleAddress{}, fault.New(fault.InvalidArgument, "handle address %.80q: not @name@host", text)
	}
	if strings.Contains(host, "/") {
		return HandleAddress{}, fault.New(fault.InvalidArgument, "handle address %.80q: the host has a path", text)
	}
	home, err := wire.NormalizeRelayURL(homeScheme(host, policy) + host)
	if err == nil {
		err = wire.CheckRelayURL(home, policy)
	}
	if err != nil {
		return HandleAddress{}, fault.Wrapf(fault.InvalidArgument, err, "handle address %.80q", text)
	}
	_, host, _ = strings.Cut(home, "://")
	return HandleAddress{Name: name, Host: host, Home: home}, nil
}

func homeScheme(host string, policy wire.URLPolicy) string {
	if policy == wire.Development && wire.IsLoopbackName(wire.RelayHost("http://"+host)) {
		return "http://"
	}
	return "https://"
}

// CheckPinnedHandle checks a verified bundle against the handle pinned for its
// ACE ID at its home, "" for none: a handle is set once, so a record that names
// the same home carries the same one (04#card-record). Code:
// invalid_authorization.
func (b *CardBundle) CheckPinnedHandle(pinned string) error {
	if pinned == "" || b.Handle == pinned {
		return nil
	}
	return fault.New(fault.InvalidAuthorization, "card record: handle %q, pinned as %q at the same home", b.Handle, pinned)
}

// CheckResolved checks a verified bundle that the relay a.Home answered for a
// (04#card-record). pinnedID is the ACE ID pinned for a, and pinnedHandle the
// handle pinned for the bundle's ACE ID at a.Home; "" is none.
//
// Codes: unknown_peer (the home or the handle is another),
// invalid_authorization (against a pin, which is told first where both hold).
func (a HandleAddress) CheckResolved(b *CardBundle, pinnedID, pinnedHandle string) error {
	if b.Home != a.Home {
		return fault.New(fault.UnknownPeer, "%s: the record's home is %.100q", a, b.Home)
	}
	if err := b.CheckPinnedHandle(pinnedHandle); err != nil {
		return err
	}
	if b.Handle != a.Name {
		return fault.New(fault.UnknownPeer, "%s: the record's handle is %q", a, b.Handle)
	}
	if pinnedID != "" && b.ACEID != pinnedID {
		return fault.New(fault.InvalidAuthorization, "%s: resolves to %s, pinned as %s", a, b.ACEID, pinnedID)
	}
	return nil
}
