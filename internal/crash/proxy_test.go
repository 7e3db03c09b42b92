package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// proxy is between clients and a relay. It passes on what is asked, and leaves
// streams to a function of the test.
type proxy struct {
	t      *testing.T
	relay  string // address
	ln     net.Listener
	stream func(*opening)

	all sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // that are open; guarded by mu, as what follows
	over  bool
	sends map[string]int // packets that the relay took, by sender
	acks  int
}

// opening is a request for a stream.
type opening struct {
	*proxy
	client net.Conn
	req    *http.Request
	kept   bool   // the connection has carried other requests
	tail   string // that ends an answer which was cut
}

// newProxy starts a proxy before the relay of a place, and returns the place as
// it is seen through it. It ends with the test.
func newProxy(t *testing.T, p place) (*proxy, place) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &proxy{t: t, relay: p.address, ln: ln, conns: map[net.Conn]bool{}, sends: map[string]int{}}
	p.front = ln.Addr().String()
	x.all.Go(x.accept)
	t.Cleanup(func() {
		ln.Close()
		x.mu.Lock()
		x.over = true
		for conn := range x.conns {
			conn.Close()
		}
		x.mu.Unlock()
		x.all.Wait()
	})
	return x, p
}

func (x *proxy) accept() {
	for {
		conn, err := x.ln.Accept()
		if err != nil {
			return
		}
		x.all.Go(func() { x.serve(conn) })
	}
}

// open counts a connection as open. A nil one is none.
func (x *proxy) open(conn net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		conn.Close()
		return false
	}
	x.conns[conn] = true
	return true
}

func (x *proxy) close(conn net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.conns, conn)
	conn.Close()
}

// dial connects to the relay. The window is small, so that a relay has not sent
// long before it is cut off.
func (x *proxy) dial() (net.Conn, bool) {
	conn, err := net.Dial("tcp", x.relay)
	if err != nil {
		return nil, false
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	return conn, x.open(conn)
}

func (x *proxy) serve(client net.Conn) {
	if !x.open(client) {
		return
	}
	defer x.close(client)
	relay, ok := x.dial()
	if !ok {
		return
	}
	defer x.close(relay)
	requests, answers := bufio.NewReader(client), bufio.NewReader(relay)
	for n := 0; ; n++ {
		req, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		if req.URL.Path == "/v1/listen" {
			x.stream(&opening{proxy: x, client: client, req: req, kept: n > 0})
			return
		}
		if !x.pass(req, relay, answers, client) {
			return
		}
	}
}

// pass passes on one exchange.
func (x *proxy) pass(req *http.Request, relay net.Conn, answers *bufio.Reader, client net.Conn) bool {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if req.Write(relay) != nil {
		return false
	}
	res, err := http.ReadResponse(answers, req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		x.count(req.URL.Path, body)
	}
	return res.Write(client) == nil
}

func (x *proxy) count(path string, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch path {
	case "/v1/send":
		var v struct{ Packet struct{ From string } }
		if err := json.Unmarshal(body, &v); err != nil {
			x.t.Error(err)
		}
		x.sends[v.Packet.From]++
	case "/v1/inbox/ack":
		x.acks++
	}
}

func (x *proxy) sent(by string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sends[by]
}

// forward asks the relay for the stream and hands its bytes on until that is
// enough, the relay ends it or the client is gone.
func (o *opening) forward(enough func(b byte) bool) {
	relay, ok := o.dial()
	if !ok {
		return
	}
	defer o.close(relay)
	if o.req.Write(relay) != nil {
		return
	}
	gone := make(chan struct{})
	defer func() { <-gone }()
	done := make(chan struct{})
	defer close(done)
	go func() { // a client that is gone ends the stream
		defer close(gone)
		_, _ = io.Copy(io.Discard, o.client)
		select {
		case <-done:
		default:
			relay.Close()
		}
	}()
	b := make([]byte, 4<<10)
	for {
		n, err := relay.Read(b)
		for i := range n {
			if enough(b[i]) {
				_, _ = o.client.Write(append(b[:i+1:i+1], o.tail...))
				o.client.Close()
				return
			}
		}
		if _, failed := o.client.Write(b[:n]); err != nil || failed != nil {
			o.client.Close()
			return
		}
	}
}

// always passes a stream on to its end.
func (o *opening) always() { o.forward(func(byte) bool { return false }) }
