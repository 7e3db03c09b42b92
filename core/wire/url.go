package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxURLLength  = 2048 // characters
	maxHostLength = 253  // characters
)

// URLPolicy says which relay URLs a verifier accepts (02#relay-urls).
type URLPolicy int

const (
	// Production accepts canonical relay URLs only.
	Production URLPolicy = iota
	// Development also accepts http with a loopback host: localhost,
	// 127.0.0.1 or [::1].
	Development
)

// IsHTTPSURL reports whether s matches the ACE HTTPS URL grammar with its
// bounds: 2048 characters in all, a host of 253, a port in 1..65535
// (02#https-urls).
func IsHTTPSURL(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok || len(s) > maxURLLength {
		return false
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
		if !all(rest[i:], isURIByte) {
			return false
		}
	}
	host, port, hasPort := strings.Cut(authority, ":")
	return isDNSHost(host) && (!hasPort || isPort(port))
}

// isDNSHost reports whether s is the host of the ACE HTTPS URL grammar: labels
// of letters, digits and inner hyphens, each of 1 to 63 characters.
func isDNSHost(s string) bool {
	if len(s) > maxHostLength {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !within(label, 1, 63) || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if !all(label, func(c byte) bool { return c == '-' || isAlnum(c) }) {
			return false
		}
	}
	return true
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return within(s, 1, 5) && all(s, isDigit) && err == nil && n >= 1 && n <= 65535
}

// NormalizeRelayURL returns the normal form of a relay base URL, following the
// four steps of 02#relay-urls.
func NormalizeRelayURL(s string) (string, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = LowerASCII(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", errors.New("relay url: scheme is not http or https")
	}
	for i := range len(s) {
		if c := s[i]; c <= 0x20 || c == 0x7f || c == '?' || c == '#' {
			return "", fmt.Errorf("relay url: character %q at %d", c, i)
		}
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, port, err := splitAuthority(authority)
	if err != nil {
		return "", err
	}
	if port == "443" && scheme == "https" || port == "80" && scheme == "http" {
		port = ""
	}
	if port != "" {
		port = ":" + port
	}
	return scheme + "://" + host + port + strings.TrimRight(path, "/"), nil
}

// splitAuthority checks and lowers the host of step 3 of 02#relay-urls.
func splitAuthority(authority string) (host, port string, err error) {
	end := strings.IndexByte(authority, ':')
	if strings.HasPrefix(authority, "[") {
		end = strings.IndexByte(authority, ']') + 1
	}
	if end < 0 {
		end = len(authority)
	}
	host, rest := authority[:end], authority[end:]
	if !isRelayHost(host) {
		return "", "", errors.New("relay url: host is empty or has a character that no host has")
	}
	if rest != "" {
		port = rest[1:]
		if rest[0] != ':' || !isPort(port) || port[0] == '0' {
			return "", "", errors.New("relay url: port is not a number in 1..65535 without leading zeros")
		}
	}
	return LowerASCII(host), port, nil
}

// isRelayHost reports whether s is a host of step 3 of 02#relay-urls: a name, or
// an IPv6 literal in brackets.
func isRelayHost(s string) bool {
	if literal, ok := strings.CutPrefix(s, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		return ok && literal != "" && all(literal, func(c byte) bool { return c == ':' || c == '.' || hexDigit(c) >= 0 })
	}
	return s != "" && all(s, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' })
}

// LowerASCII returns s with the letters A to Z in lower case. Others stay as
// they are: a Kelvin sign is no k.
func LowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// CheckRelayURL reports an error unless s is a canonical relay URL, or one that
// the policy allows besides (02#relay-urls).
func CheckRelayURL(s string, policy URLPolicy) error {
	n, err := NormalizeRelayURL(s)
	if err != nil {
		return err
	}
	if n != s {
		return errors.New("relay url: not in normal form")
	}
	if len([]rune(s)) > maxURLLength {
		return errors.New("relay url: longer than 2048 characters")
	}
	host := RelayHost(s)
	if strings.HasPrefix(s, "http://") {
		if policy == Development && IsLoopbackName(host) {
			return nil
		}
		return errors.New("relay url: scheme is not https")
	}
	if !isDNSHost(host) {
		return errors.New("relay url: host does not match the HTTPS URL grammar")
	}
	return nil
}

// RelayHost returns the host of a normalized relay URL, without its port.
func RelayHost(s string) string {
	_, authority, _ := strings.Cut(s, "://")
	authority, _, _ = strings.Cut(authority, "/")
	if i := strings.LastIndexByte(authority, ':'); i > strings.IndexByte(authority, ']') {
		return authority[:i]
	}
	return authority
}

// RelayHasPath reports whether a normalized relay URL has a path. A handle
// resolves at https://host, so such a relay has none (04#card-record).
func RelayHasPath(s string) bool {
	_, authority, _ := strings.Cut(s, "://")
	return strings.Contains(authority, "/")
}

// IsLoopbackName reports whether host is one of the loopback hosts of
// 02#relay-urls: localhost, 127.0.0.1 or [::1].
func IsLoopbackName(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "[::1]"
}
