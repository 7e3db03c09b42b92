package relayadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// Client asks a running relay over its socket.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns the client of the relay whose socket is at path. Close
// gives its connection back.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path, &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 1}}}
}

// Close closes the connection to the relay.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks for the state of the relay. Codes, as of every method:
// relay_unavailable when no relay answers, relay_protocol_error, and what the
// relay refuses with.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.call(ctx, http.MethodGet, "/status", nil, &s)
}

// Identities lists at most limit identities that follow after.
func (c *Client) Identities(ctx context.Context, after string, limit int) (all []Identity, err error) {
	return all, c.call(ctx, http.MethodGet, "/identities?"+list(after, limit), nil, &all)
}

// Identity asks for one identity.
func (c *Client) Identity(ctx context.Context, aceID string) (i Identity, err error) {
	return i, c.call(ctx, http.MethodGet, "/identities/"+url.PathEscape(aceID), nil, &i)
}

// Suspend takes an identity out of sight.
func (c *Client) Suspend(ctx context.Context, aceID string) error {
	return c.call(ctx, http.MethodPut, "/identities/"+url.PathEscape(aceID)+"/suspension", nil, nil)
}

// Resume brings it back.
func (c *Client) Resume(ctx context.Context, aceID string) error {
	return c.call(ctx, http.MethodDelete, "/identities/"+url.PathEscape(aceID)+"/suspension", nil, nil)
}

// Purge ends a registration and deletes its queue and documents.
func (c *Client) Purge(ctx context.Context, aceID string) error {
	return c.call(ctx, http.MethodDelete, "/identities/"+url.PathEscape(aceID), nil, nil)
}

// SetQuota bounds the queue of an identity; nil lifts that.
func (c *Client) SetQuota(ctx context.Context, aceID string, q *Quota) error {
	path := "/identities/" + url.PathEscape(aceID) + "/quota"
	if q == nil {
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	}
	return c.call(ctx, http.MethodPut, path, q, nil)
}

// Handles lists at most limit bound and reserved handles that follow after.
func (c *Client) Handles(ctx context.Context, after string, limit int) (all []Handle, err error) {
	return all, c.call(ctx, http.MethodGet, "/handles?"+list(after, limit), nil, &all)
}

// Reserve keeps a handle from being claimed.
func (c *Client) Reserve(ctx context.Context, handle string) error {
	return c.call(ctx, http.MethodPut, "/handles/"+url.PathEscape(handle), nil, nil)
}

// Release lifts a reservation.
func (c *Client) Release(ctx context.Context, handle string) error {
	return c.call(ctx, http.MethodDelete, "/handles/"+url.PathEscape(handle), nil, nil)
}

// Backup makes the relay write a checked copy of its store to path, which is
// absolute.
func (c *Client) Backup(ctx context.Context, path string) (b Backup, err error) {
	return b, c.call(ctx, http.MethodPost, "/backup?"+url.Values{"path": {path}}.Encode(), nil, &b)
}

// Verify makes the relay check its store.
func (c *Client) Verify(ctx context.Context) (r Report, err error) {
	return r, c.call(ctx, http.MethodPost, "/verify", nil, &r)
}

// Collect makes the relay remove what has expired.
func (c *Client) Collect(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/gc", nil, nil)
}

// Drain makes the relay drain and end. Nil keeps what it was configured with.
func (c *Client) Drain(ctx context.Context, deadline, spread *time.Duration) error {
	return c.call(ctx, http.MethodPost, "/drain", drainRequest{inSeconds(deadline), inSeconds(spread)}, nil)
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}

func list(after string, limit int) string {
	return url.Values{"after": {after}, "limit": {strconv.Itoa(limit)}}.Encode()
}

// call sends one request and reads the answer into it, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fault.Wrap(fault.InvalidArgument, err)
		}
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://relay"+path, bytes.NewReader(text))
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	resp, err := c.http.Do(q)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fault.Wrap(fault.RelayProtocolError, err)
	}
	if resp.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(answer, &f) != nil || f.Code == "" {
			return fault.New(fault.RelayProtocolError, "the relay answered with status %d", resp.StatusCode)
		}
		return fault.New(f.Code, "%s", f.Message)
	}
	if into == nil {
		return nil
	}
	return fault.Wrap(fault.RelayProtocolError, json.Unmarshal(answer, into))
}

// unreachable says why no relay answers. At a path that is too long for a socket
// none can.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if CheckPath(c.path) != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fault.New(fault.RelayUnavailable, "no relay runs with the socket %s", c.path)
	}
	var dialed *net.OpError
	if failed := errors.As(err, &dialed) && dialed.Op == "dial"; !failed && ctx.Err() == nil {
		return fault.Wrapf(fault.RelayUnavailable, err, "the relay at %s closed the connection: it ended just now, or runs as another user", c.path)
	}
	return fault.Wrap(fault.RelayUnavailable, err)
}
