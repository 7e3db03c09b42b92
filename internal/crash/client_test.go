package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ace-toolkit/ace/core/relayapi"
)

// ok is the outcome of a request that was answered with 200. Any other is the
// code of the refusal, or "" without an answer.
const ok = "ok"

// client speaks to one run of a relay.
type client struct {
	url  string
	http *http.Client
}

const patience = 20 * time.Second

func newClient(p place) *client {
	dialer := &net.Dialer{Timeout: patience}
	return &client{url: p.url(), http: &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// request is one of 07#endpoints.
type request struct {
	method, path string
	body         []byte
	header       http.Header
	network      string // client address, as the proxy tells it; "" is any
}

// do sends a request and returns the body of the answer and its outcome.
func (c *client) do(ctx context.Context, r request) (body []byte, outcome string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, "", err
	}
	return body, outcomeOf(resp.StatusCode, body), nil
}

func (c *client) open(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // a request is sent once
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	if r.body != nil {
		req.Header.Set("Content-Type", relayapi.MediaJSON)
	}
	if r.network != "" {
		req.Header.Set("X-Forwarded-For", r.network)
	}
	return c.http.Do(req)
}

func outcomeOf(status int, body []byte) string {
	if status == http.StatusOK {
		return ok
	}
	var v struct{ Error string }
	if json.Unmarshal(body, &v) != nil || v.Error == "" {
		return "no code"
	}
	return v.Error
}
