package loadgen

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
)

// answering listens and gives each request on a connection the next answer.
// After the last it closes the connection.
func answering(t *testing.T, answers ...string) target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for _, a := range answers {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			req.Body.Close()
			if _, err := c.Write([]byte(a)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	target, err := newTarget("http://" + ln.Addr().String())
	must(t, err)
	return target
}

const request = "POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

func TestExchange(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}"
	refusal := "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 24\r\n\r\n{\"error\":\"rate_limited\"}"
	target := answering(t, ok, refusal, ok)
	c, err := target.dial(t.Context())
	must(t, err)
	defer c.close()
	must(t, c.exchange([]byte(request)))
	err = c.exchange([]byte(request))
	wantCode(t, err, fault.RelayUnavailable)
	if e := err.(*fault.Error); e.Remote != "rate_limited" || e.Status != 429 || e.RetryAfter != 7 {
		t.Errorf("%+v", e)
	}
	must(t, c.exchange([]byte(request))) // the connection is as good as before
	wantCode(t, c.exchange([]byte(request)), fault.RelayUnavailable)
}

func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   fault.Code
	}{
		"no HTTP":            {"SSH-2.0-OpenSSH\r\n", fault.RelayProtocolError},
		"no number":          {"HTTP/1.1 abc OK\r\n\r\n", fault.RelayProtocolError},
		"no length":          {"HTTP/1.1 200 OK\r\n\r\n{}", fault.RelayProtocolError},
		"length no number":   {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", fault.RelayProtocolError},
		"negative length":    {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", fault.RelayProtocolError},
		"too long an answer": {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", fault.RelayProtocolError},
		"an endless line":    {"HTTP/1.1 200 " + strings.Repeat("x", 2*readBuffer) + "\r\n\r\n", fault.RelayUnavailable},
		"cut off":            {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\"", fault.RelayUnavailable},
		"nothing":            {"", fault.RelayUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			target := answering(t, c.answer)
			conn, err := target.dial(t.Context())
			must(t, err)
			defer conn.close()
			wantCode(t, conn.exchange([]byte(request)), c.want)
		})
	}
}

func TestTarget(t *testing.T) {
	for url, want := range map[string]target{
		"http://127.0.0.1:8420":      {address: "127.0.0.1:8420", host: "127.0.0.1:8420"},
		"https://relay.example":      {address: "relay.example:443", host: "relay.example", tls: true},
		"https://relay.example/path": {address: "relay.example:443", host: "relay.example", prefix: "/path", tls: true},
		"http://[::1]":               {address: "[::1]:80", host: "[::1]"},
	} {
		want.url = url
		if got, err := newTarget(url); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestCut ends a connection that waits for an answer together with its context.
func TestCut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	target, err := newTarget("http://" + ln.Addr().String())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := target.dial(ctx)
	must(t, err)
	defer c.close()
	ended := make(chan error)
	go func() { ended <- c.exchange([]byte(request)) }()
	server, err := ln.Accept()
	must(t, err)
	defer server.Close()
	cancel()
	if err := <-ended; fault.CodeOf(err) != fault.RelayUnavailable || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
