package relayclient

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// ResponseError maps a response that is not the expected one to an error by the
// table of 07#client-rules. It keeps the status, the relay's error and, for
// transient codes, a Retry-After in delay-seconds; retryAfter is the header's
// text, "" when absent.
func ResponseError(status int, body []byte, retryAfter string) *fault.Error {
	remote, _ := relayapi.ParseError(body)
	code := responseCode(status, remote)
	err := fault.New(code, "relay answered %d", status)
	if remote != "" {
		err.Msg += " " + strconv.Quote(remote[:min(len(remote), 64)])
	}
	err.Status, err.Remote = status, remote
	if code.Category() == fault.Transient {
		err.RetryAfter = delaySeconds(retryAfter)
	}
	return err
}

// responseCode is the table of 07#client-rules; the first match wins.
func responseCode(status int, remote string) fault.Code {
	switch {
	case status < 400 || status >= 600:
		return fault.RelayProtocolError
	case status == 408 || status >= 500:
		return fault.RelayUnavailable
	case status == 429:
		return fault.RelayUnavailable
	case status == 403 && remote == string(fault.NotRegistered):
		return fault.NotRegistered
	case status == 403 && remote == string(fault.NotPermitted):
		return fault.NotPermitted
	case status == 404 && remote == string(fault.UnknownPeer):
		return fault.UnknownPeer
	}
	return fault.RelayRejected
}

// delaySeconds reads ^[0-9]+$, and is 0 for any other form of Retry-After, such
// as a date (07#client-rules). A number beyond a wire integer is the greatest
// one.
func delaySeconds(s string) int64 {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) || n > wire.MaxInt {
		return wire.MaxInt
	}
	return n
}

// unavailable maps a failure below HTTP. The cause stays reachable, so that a
// caller who cancelled finds context.Canceled. Codes: blocked_address, and
// relay_unavailable for everything else.
func unavailable(err error) error {
	// url.Error repeats the whole URL, which the caller knows.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if fault.CodeOf(err) != "" {
		return err
	}
	return fault.Wrap(fault.RelayUnavailable, err)
}
