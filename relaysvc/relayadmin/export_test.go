package relayadmin

import (
	"context"
	"net"
	"net/http"
)

// NewClientOn is NewClient with a connection that is open already.
func NewClientOn(path string, conn net.Conn) *Client {
	dial := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	return &Client{path, &http.Client{Transport: &http.Transport{DialContext: dial}}}
}
