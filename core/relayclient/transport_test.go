package relayclient

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A test without a network carries the requests itself, also those to relays
// that the owner did not choose.
func TestTransport(t *testing.T) {
	var asked []string
	c := New(Config{Configured: []string{"https://own.example"}, Transport: transport(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Host)
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(okBody))}, nil
	})})
	defer c.Close()
	must(t, c.Post(t.Context(), "https://own.example", []byte("{}"), nil))
	must(t, c.Post(t.Context(), "https://127.0.0.1", []byte("{}"), nil))
	if len(asked) != 2 || asked[0] != "own.example" || asked[1] != "127.0.0.1" {
		t.Errorf("asked %q", asked)
	}
}
