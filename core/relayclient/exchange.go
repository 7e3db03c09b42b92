package relayclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// The bounds of what is read of a body, in bytes. A lookup returns an object of
// at most MAX_PUBLISHED_AGENT_BYTES in canonical form; another serialization may
// be longer.
const (
	maxShortBody  = 64 << 10
	maxLookupBody = 2 * wire.MaxPublishedAgentBytes
)

// request is one exchange with a relay.
type request struct {
	method string
	path   string // with the query, below the relay's base URL
	body   []byte // JSON, nil for none
	limit  int64  // bytes of the body of a 200

	action  string // of 02#signing-actions, "" for an anonymous request
	payload []byte // of the action
}

// exchange makes a request and returns the JSON body of the 200.
func (c *Client) exchange(ctx context.Context, relay string, r request, now int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	res, err := c.send(ctx, relay, r, now)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := checkMedia(res, relayapi.MediaJSON); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, r.limit+1))
	if err != nil {
		return nil, unavailable(err)
	}
	if int64(len(body)) > r.limit {
		return nil, fault.New(fault.RelayProtocolError, "response is longer than %d bytes", r.limit)
	}
	return body, nil
}

// send makes a request and returns the response when it is a 200. A 409 replay
// is tried once more with a fresh nonce (07#client-rules), and so is a signed
// GET whose kept connection turned out to be dead.
func (c *Client) send(ctx context.Context, relay string, r request, now int64) (*http.Response, error) {
	res, err := c.attempt(ctx, relay, r, now)
	if r.action != "" && isReplay(err) || errors.Is(err, errDeadConnection) && ctx.Err() == nil {
		res, err = c.attempt(ctx, relay, r, now)
	}
	return res, err
}

// errDeadConnection is in the chain of a failure that says nothing about the
// relay: the connection had been kept, and the relay may have closed it before
// the request came. One that has brought a byte of the answer was alive.
var errDeadConnection = errors.New("the kept connection was dead")

// Exchange is one HTTP attempt, for a trace. It has nothing of the header and of
// the bodies, which hold what authenticates a request.
type Exchange struct {
	Method, Relay, Path string // Path with the query
	Action              string // of 02#signing-actions, "" for an anonymous request
	Sent                int    // bytes of the body
	Status              int    // of the answer, 0 without one
	Kept                bool   // the connection was there before
	Err                 error  // nil for a 200, else with a code of 07#client-rules
	Took                time.Duration
}

// attempt makes one HTTP attempt, with its own nonce when it is authenticated,
// and tells the trace of it.
func (c *Client) attempt(ctx context.Context, relay string, r request, now int64) (*http.Response, error) {
	if c.trace == nil {
		res, _, err := c.attemptOnce(ctx, relay, r, now)
		return res, err
	}
	begin := time.Now()
	res, kept, err := c.attemptOnce(ctx, relay, r, now)
	e := Exchange{Method: r.method, Relay: relay, Path: r.path, Action: r.action, Sent: len(r.body), Kept: kept, Err: err, Took: time.Since(begin)}
	var refused *fault.Error
	switch {
	case err == nil:
		e.Status = res.StatusCode
	case errors.As(err, &refused):
		e.Status = refused.Status
	}
	c.trace(e)
	return res, err
}

func (c *Client) attemptOnce(ctx context.Context, relay string, r request, now int64) (res *http.Response, kept bool, err error) {
	pool, err := c.pool(relay)
	if err != nil {
		return nil, false, err
	}
	var answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(got httptrace.GotConnInfo) { kept = got.Reused },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, r.method, relay+r.path, bodyReader(r))
	if err != nil {
		return nil, false, fault.Wrap(fault.InvalidArgument, err)
	}
	req.Header.Set("User-Agent", "ace")
	if r.body != nil {
		req.Header.Set("Content-Type", relayapi.MediaJSON)
	}
	if r.action != "" {
		if err := c.authenticate(req.Header, relay, r, now); err != nil {
			return nil, false, err
		}
	}
	failpoint.Here(failpoint.Request)
	res, err = pool.Do(req)
	failpoint.Here(failpoint.Requested)
	if err != nil {
		err = unavailable(err)
		if kept && !answered.Load() && isSignedGet(r) {
			err = fmt.Errorf("%w: %w", errDeadConnection, err)
		}
		return nil, kept, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, kept, refusal(res)
	}
	return res, kept, nil
}

// bodyReader returns the body to send. On a dead connection net/http sends a GET
// without one again by itself, but a nonce is fresh for every HTTP attempt
// (07#authentication): a signed GET gets an empty body that cannot be read
// twice, and on the wire it still has none. A POST is sent again only when
// nothing of it was written.
func bodyReader(r request) io.Reader {
	switch {
	case isSignedGet(r):
		return io.MultiReader()
	case r.body == nil:
		return nil // not an interface of a nil reader
	}
	return bytes.NewReader(r.body)
}

func isSignedGet(r request) bool { return r.action != "" && r.method == http.MethodGet }

// authenticate signs a request with a fresh nonce (07#authentication).
// Code: identity_unavailable.
func (c *Client) authenticate(h http.Header, relay string, r request, now int64) error {
	if c.id == nil {
		return fault.New(fault.IdentityUnavailable, "the request needs an identity")
	}
	headers, err := relayapi.SignHeaders(c.id, r.action, relay, suite.NewNonce(), r.payload, now)
	if err != nil {
		return err
	}
	headers.Apply(h)
	return nil
}

// refusal reads the error of a response that is no 200.
func refusal(res *http.Response) *fault.Error {
	return ResponseError(res.StatusCode, refusalBody(res), res.Header.Get("Retry-After"))
}

// refusalBody returns the body of a refusal; one that is cut or too long to be
// an error counts as none. After 101 there is no body but a connection, whose
// reads would outlast the context.
func refusalBody(res *http.Response) []byte {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxShortBody+1))
	if err != nil || len(body) > maxShortBody {
		return nil
	}
	return body
}

func isReplay(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Status == http.StatusConflict && e.Remote == string(relayapi.Replay)
}

// checkMedia refuses a 200 of another content type; parameters do not matter.
func checkMedia(res *http.Response, want string) error {
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), want) {
		return fault.New(fault.RelayProtocolError, "response has the content type %.64q, not %s", media, want)
	}
	return nil
}

// command makes a request whose answer is {"ok":true}.
func (c *Client) command(ctx context.Context, relay string, r request, now int64) error {
	r.limit = maxShortBody
	body, err := c.exchange(ctx, relay, r, now)
	if err != nil {
		return err
	}
	return relayapi.ParseOK(body)
}
