package relaysvc_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// wireTap is a connection on which a test writes what it likes.
type wireTap struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func (r *relay) tap(t testing.TB) *wireTap {
	t.Helper()
	conn, err := r.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return &wireTap{t, conn, bufio.NewReader(conn)}
}

// write sends bytes. That the relay has closed already shows in its answer.
func (w *wireTap) write(text string) { _, _ = io.WriteString(w.conn, text) }

// answer reads the next answer, after those that only say "go on".
func (w *wireTap) answer() (answer, bool) {
	w.t.Helper()
	for {
		resp, err := http.ReadResponse(w.in, nil)
		if err != nil {
			w.noTimeout(err)
			return answer{}, false
		}
		body, err := io.ReadAll(resp.Body)
		must(w.t, err)
		if resp.StatusCode >= 200 {
			if resp.Close {
				resp.Header.Set("Connection", "close")
			}
			return answer{resp.StatusCode, resp.Header, body}, true
		}
	}
}

// ended checks that the relay has closed the connection and said no more.
func (w *wireTap) ended() {
	w.t.Helper()
	rest, err := io.ReadAll(w.in)
	w.noTimeout(err)
	if len(rest) > 0 {
		w.t.Fatalf("more than the answers: %.300q", rest)
	}
}

func (w *wireTap) noTimeout(err error) {
	w.t.Helper()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		w.t.Fatal("the relay neither answers nor closes")
	}
}

// hostile is what a client writes, and the outcomes of the answers.
type hostile struct {
	name, bytes string
	want        []string
}

// hostileRequests are requests that no HTTP library makes, about an agent that
// is published.
func hostileRequests(a *agent) []hostile {
	packet := string(relayapi.SendBody(a.packet(strangerID()), nil))
	head := func(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }
	send := func(body string, headers ...string) string {
		return head(append([]string{"POST /v1/send HTTP/1.1", "Host: x", "Content-Type: application/json"}, headers...)...) + body
	}
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	sized := func(body string) string { return send(body, length(len(body))) }
	chunked := "Transfer-Encoding: chunked"
	inbox := a.signed("inbox", relayapi.InboxPayload("-", 100))
	signed := func(extra ...string) string {
		lines := []string{"GET /v1/inbox HTTP/1.1", "Host: x"}
		for name, values := range inbox {
			lines = append(lines, name+": "+values[0])
		}
		return head(append(lines, extra...)...)
	}
	const bad, gone, large = "invalid_argument", "not_found", "payload_too_large"
	return []hostile{
		{"a line of nonsense", "nonsense\r\n\r\n", []string{bad}},
		{"an empty line and then a request", "\r\n" + head("GET /health HTTP/1.1", "Host: x"), []string{bad}},
		{"binary", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []string{bad}},
		{"no version", head("GET /health"), []string{bad}},
		{"HTTP/0.9", "GET /health\r\n\r\n", []string{bad}},
		{"HTTP/2.0", head("GET /health HTTP/2.0", "Host: x"), []string{bad}},
		{"HTTP/1.2", head("GET /health HTTP/1.2", "Host: x"), []string{"ok"}},
		{"HTTP/9.9", head("GET /health HTTP/9.9", "Host: x"), []string{bad}},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{gone}},
		{"lower-case version", head("GET /health http/1.1", "Host: x"), []string{bad}},
		{"HTTP/1.0", head("GET /health HTTP/1.0"), []string{"ok"}},
		{"HTTP/1.0 with a body", head("POST /v1/send HTTP/1.0", "Content-Type: application/json", length(2)) + "{}", []string{bad}},
		{"blanks in the target", head("GET /v1/ inbox HTTP/1.1", "Host: x"), []string{bad}},
		{"a target that is no path", head("GET health HTTP/1.1", "Host: x"), []string{bad}},
		{"absolute form", head("GET http://other.example/health HTTP/1.1", "Host: x"), []string{"ok"}},
		{"absolute form of another scheme", head("GET ftp://other.example/nowhere HTTP/1.1", "Host: x"), []string{gone}},
		{"authority form", head("CONNECT other.example:443 HTTP/1.1", "Host: x"), []string{gone}},
		{"OPTIONS *", head("OPTIONS * HTTP/1.1", "Host: x"), []string{gone}},
		{"a star elsewhere", head("GET * HTTP/1.1", "Host: x"), []string{gone}},
		{"bad escape", head("GET /v1/card/%zz HTTP/1.1", "Host: x"), []string{bad}},
		{"escaped slash", head("GET /v1%2Finbox HTTP/1.1", "Host: x"), []string{gone}},
		{"escaped slash in a target", head("GET /v1/card/ace%2Fx HTTP/1.1", "Host: x"), []string{bad}},
		{"escaped NUL", head("GET /v1/card/%00 HTTP/1.1", "Host: x"), []string{bad}},
		{"NUL in the target", head("GET /v1/card/\x00 HTTP/1.1", "Host: x"), []string{bad}},
		{"bytes over 127 in the target", head("GET /v1/card/\xff\xfe HTTP/1.1", "Host: x"), []string{bad}},
		{"method of odd characters", head("GE(T /health HTTP/1.1", "Host: x"), []string{bad}},
		{"unknown method", head("NONSENSE /v1/send HTTP/1.1", "Host: x"), []string{gone}},
		{"another method", head("DELETE /health HTTP/1.1", "Host: x"), []string{gone}},
		{"query with a semicolon", head("GET /v1/cards?limit=1;tag=a HTTP/1.1", "Host: x"), []string{bad}},
		{"query of bad escapes", head("GET /v1/cards?limit=%f HTTP/1.1", "Host: x"), []string{bad}},

		{"no Host", head("GET /health HTTP/1.1"), []string{bad}},
		{"two Hosts", head("GET /health HTTP/1.1", "Host: x", "Host: y"), []string{bad}},
		{"a Host of blanks", head("GET /health HTTP/1.1", "Host: a b"), []string{bad}},
		{"header without a colon", head("GET /health HTTP/1.1", "Host: x", "nonsense"), []string{bad}},
		{"blank before the colon", head("GET /health HTTP/1.1", "Host: x", "A : b"), []string{bad}},
		{"folded header", head("GET /health HTTP/1.1", "Host: x", "A: b", " c"), []string{"ok"}},
		{"NUL in a header", head("GET /health HTTP/1.1", "Host: x", "A: \x00"), []string{bad}},
		{"CR in a header", head("GET /health HTTP/1.1", "Host: x", "A: a\rb"), []string{bad}},
		{"a header of 20 KB", head("GET /health HTTP/1.1", "Host: x", "A: "+strings.Repeat("a", 25_000)), []string{bad}},
		{"a header of 2 MB", head("GET /health HTTP/1.1", "Host: x", "A: "+strings.Repeat("a", 2<<20)), []string{bad}},
		{"a thousand headers", head("GET /health HTTP/1.1", "Host: x"+strings.Repeat("\r\nA: bcdefghijklmnopqrstuv", 1000)), []string{bad}},
		{"a target of 25 KB", head("GET /v1/card/"+strings.Repeat("a", 25_000)+" HTTP/1.1", "Host: x"), []string{bad}},

		{"no X-ACE headers", head("GET /v1/inbox HTTP/1.1", "Host: x"), []string{bad}},
		{"an X-ACE header twice", signed("x-ace-id: " + a.aceID()), []string{bad}},
		{"an X-ACE header that is empty", head("GET /v1/inbox HTTP/1.1", "Host: x", "X-ACE-Id:"), []string{bad}},
		{"a signature that is too long", head("GET /v1/inbox HTTP/1.1", "Host: x", "X-ACE-Signature: "+strings.Repeat("A", 8000)), []string{bad}},
		{"an X-ACE header that is not UTF-8", head("GET /v1/inbox HTTP/1.1", "Host: x", "X-ACE-Audience: \xff"), []string{bad}},

		{"negative length", send("", "Content-Length: -1"), []string{bad}},
		{"length with a sign", send("{}", "Content-Length: +2"), []string{bad}},
		{"length that overflows", send("", "Content-Length: 99999999999999999999"), []string{bad}},
		{"length that is no number", send("", "Content-Length: two"), []string{bad}},
		{"two lengths", send("{}", length(2), length(3)), []string{bad}},
		{"the same length twice", send("{}", length(2), length(2)), []string{bad}},
		{"a list of lengths", send("{}", "Content-Length: 2, 2"), []string{bad}},
		{"a body that ends early", send("{", length(10)), []string{bad}},
		{"a body that goes on", send("{}{}\r\n\r\n", length(2)), []string{bad, bad}},
		{"a length beyond the bound", send("", length(wire.MaxSendBodyBytes+1)), []string{large}},
		{"an enormous length", send("", "Content-Length: 9223372036854775807"), []string{large}},
		{"no length", send("{}\r\n\r\n"), []string{bad, bad}},

		{"chunked", send(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(packet), packet), chunked), []string{"ok"}},
		{"chunk that is no number", send("zz\r\n{}\r\n0\r\n\r\n", chunked), []string{bad}},
		{"chunk that overflows", send("ffffffffffffffffff\r\n{}\r\n", chunked), []string{bad}},
		{"negative chunk", send("-2\r\n{}\r\n0\r\n\r\n", chunked), []string{bad}},
		{"chunk that is too short", send("1\r\n{}\r\n0\r\n\r\n", chunked), []string{bad}},
		{"chunks that do not end", send("2\r\n{}\r\n", chunked), []string{bad}},
		{"chunk extension of 20 KB", send("2;a="+strings.Repeat("b", 20_000)+"\r\n{}\r\n0\r\n\r\n", chunked), []string{bad}},
		{"length and chunks", send("2\r\n{}\r\n0\r\n\r\n", length(2), chunked), []string{bad}},
		{"chunked twice", send("2\r\n{}\r\n0\r\n\r\n", chunked, chunked), []string{bad}},
		{"chunked, identity", send("{}", "Transfer-Encoding: chunked, identity"), []string{bad}},
		{"gzip", send("{}", "Transfer-Encoding: gzip", length(2)), []string{bad}},
		{"gzip, chunked", send("0\r\n\r\n", "Transfer-Encoding: gzip, chunked"), []string{bad}},
		{"chunked with odd characters", send("0\r\n\r\n", "Transfer-Encoding: \x0bchunked"), []string{bad}},

		{"expectation", send("{}", length(2), "Expect: 200-ok"), []string{bad}},
		{"100-continue", send("{}", length(2), "Expect: 100-continue"), []string{bad}},
		{"100-continue of what is too large", send("", length(wire.MaxSendBodyBytes+1), "Expect: 100-continue"), []string{large}},
		{"upgrade", head("GET /health HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: h2c"), []string{"ok"}},
		{"a body on GET", head("GET /health HTTP/1.1", "Host: x", length(5)) + "12345" + head("GET /health HTTP/1.1", "Host: x"), []string{"ok", "ok"}},
		{"a body on no route", head("POST /nowhere HTTP/1.1", "Host: x", length(5)) + "12345" + head("GET /health HTTP/1.1", "Host: x"), []string{gone, "ok"}},
		{"pipelined", sized("{}") + head("GET /health HTTP/1.1", "Host: x") + head("GET /v1/cards HTTP/1.1", "Host: x"), []string{bad, "ok", "ok"}},

		{"a list", sized("[]"), []string{bad}},
		{"an empty body", sized(""), []string{bad}},
		{"bad UTF-8", sized("{\"packet\":\"\xff\"}"), []string{bad}},
		{"UTF-8 that ends early", sized("{\"packet\":\"\xe2\x82\"}"), []string{bad}},
		{"a surrogate", sized(`{"packet":"\ud800"}`), []string{bad}},
		{"a byte-order mark", sized("\xef\xbb\xbf{}"), []string{bad}},
		{"UTF-16", sized("{\x00}\x00"), []string{bad}},
		{"a NUL", sized("{}\x00"), []string{bad}},
		{"members twice", sized(`{"packet":{},"packet":{}}`), []string{bad}},
		{"members twice, escaped", sized(`{"packet":{},"p\u0061cket":{}}`), []string{bad}},
		{"an infinite number", sized(`{"packet":1e999}`), []string{bad}},
		{"a number of 100,000 digits", sized(`{"packet":` + strings.Repeat("1", 100_000) + `}`), []string{bad}},
		{"deep", sized(strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000)), []string{bad}},
		{"deep and open", sized(strings.Repeat(`{"packet":`, 100_000)), []string{bad}},
		{"a deep packet", sized(`{"packet":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + "}"), []string{"invalid_packet"}},
		{"a packet of the wrong type", sized(`{"packet":7}`), []string{"invalid_packet"}},
		{"many members", sized(`{"packet":{` + members(50_000) + `}}`), []string{"unsupported_version"}},
		{"a comment", sized(`{"packet":{}/**/}`), []string{bad}},
		{"two values", sized(`{"packet":{}}{}`), []string{bad}},
	}
}

// TestHostileBytes sends them. Each gets the code and status of 07#errors with
// its JSON body, whether net/http or a route refuses it, and the connection
// then answers another request or is closed.
func TestHostileBytes(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) {
		c.Timeouts.Body, c.Timeouts.Header = 200*time.Millisecond, 200*time.Millisecond
	})
	for _, c := range hostileRequests(r.published()) {
		t.Run(c.name, func(t *testing.T) {
			w := r.tap(t)
			go w.write(c.bytes)
			var last answer
			for i, want := range c.want {
				got, ok := w.answer()
				if !ok {
					t.Fatalf("the connection ended before answer %d", i)
				}
				got.expect(t, want)
				if last = got; last.header.Get("Connection") == "close" {
					break
				}
			}
			if last.header.Get("Connection") == "close" {
				w.ended()
			} else {
				w.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
				got, ok := w.answer()
				if !ok {
					t.Fatal("the connection ended without having said so")
				}
				got.expect(t, "ok")
			}
			r.expect("ok", r.do(call{method: "GET", path: "/health"}))
		})
	}
}

// TestRefusedBeforeTheBody has a client ask whether to send a body that is
// refused whatever is in it. The answer is no, at once, and not "go on".
func TestRefusedBeforeTheBody(t *testing.T) {
	r := start(t, nil)
	for _, c := range []struct{ name, media, length, want string }{
		{"a length beyond the bound", "application/json", fmt.Sprint(wire.MaxSendBodyBytes + 1), "payload_too_large"},
		{"another content type", "text/plain", "100", "invalid_argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := r.tap(t)
			w.write("POST /v1/send HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n" +
				"Content-Type: " + c.media + "\r\nContent-Length: " + c.length + "\r\n\r\n")
			line, err := w.in.Peek(len("HTTP/1.1 100"))
			if w.noTimeout(err); string(line) == "HTTP/1.1 100" {
				t.Fatal("the client is told to go on")
			}
			got, ok := w.answer()
			if !ok {
				t.Fatal("no answer")
			}
			got.expect(t, c.want)
			if got.header.Get("Connection") != "close" {
				t.Fatal("the connection stays open in the middle of a body")
			}
		})
	}
}

// TestRefusedWhileTheBodyIsToCome announces a body that is refused whatever is
// in it, and does not send it. The answer does not wait for the body, and a
// client that writes all of it before it reads sees the answer too.
func TestRefusedWhileTheBodyIsToCome(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Body = time.Hour })
	signed := "Content-Type: application/json\r\n"
	for name, values := range r.registered().signed(kel.ActionBlock, nil) {
		signed += name + ": " + values[0] + "\r\n"
	}
	for _, c := range []struct {
		name, path, header string
		length             int
		want               string
	}{
		{"a length beyond the bound", "/v1/send", signed, wire.MaxSendBodyBytes + 1, "payload_too_large"},
		{"a length beyond a small bound", "/v1/blocks", signed, 200 << 10, "payload_too_large"},
		{"another content type", "/v1/send", "Content-Type: text/plain\r\n", 100, "invalid_argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n", c.path, c.header, c.length)
			for _, body := range []string{"", strings.Repeat("x", c.length)} {
				w := r.tap(t)
				w.write(head + body)
				got, ok := w.answer()
				if !ok {
					t.Fatalf("no answer after %d bytes", len(body))
				}
				got.expect(t, c.want)
				if got.header.Get("Connection") != "close" {
					t.Error("the connection stays open in the middle of a body")
				}
				w.conn.Close()
			}
		})
	}
}

// TestTimeOfASlowBody lets the time of a request run out while its body comes:
// it is decided when it is complete, or a nonce could be forgotten by then
// (07#authentication).
func TestTimeOfASlowBody(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	peer := strangerID()
	block := relayapi.Block{Peer: peer, Blocked: true, Revision: 1}
	signed := a.signed(kel.ActionBlock, relayapi.BlockPayload(peer, true, 1))
	registration := r.newAgent().registration(epoch)
	for _, c := range []struct {
		path   string
		header http.Header
		body   []byte
	}{
		{"/v1/blocks", signed, block.Body()},
		{"/v1/register", nil, registration},
		{"/v1/send", nil, relayapi.SendBody(opaque(peer, a.aceID(), epoch-wire.OfflineWindowSeconds, 64), nil)},
	} {
		t.Run(c.path, func(t *testing.T) {
			r.now.Store(epoch)
			w := r.tap(t)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", c.path, len(c.body))
			for name, values := range c.header {
				head += name + ": " + values[0] + "\r\n"
			}
			w.write(head + "\r\n")
			line, err := w.in.ReadString('\n')
			must(t, err)
			if line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("the relay does not read: %q", line)
			}
			_, err = w.in.ReadString('\n')
			must(t, err)
			r.now.Add(wire.TimestampWindowSeconds + 1)
			w.write(string(c.body))
			got, ok := w.answer()
			if !ok {
				t.Fatal("no answer")
			}
			got.expect(t, "stale_timestamp")
		})
	}
}

// members returns many members of an object.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	return b.String() + `"ace":"0"`
}

// TestHostileTLS sends requests over TLS that net/http refuses itself, and
// plain HTTP to a port that speaks TLS.
func TestHostileTLS(t *testing.T) {
	p := newPairFiles(t)
	r := startTLS(t, p, nil)
	over := func(t *testing.T, protocols ...string) *wireTap {
		w := r.tap(t)
		conn := tls.Client(w.conn, &tls.Config{RootCAs: p.roots, ServerName: "relay.example", NextProtos: protocols})
		must(t, conn.HandshakeContext(t.Context()))
		return &wireTap{t, conn, bufio.NewReader(conn)}
	}
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		for _, c := range []struct{ name, bytes, want string }{
			{"nonsense", "nonsense\r\n\r\n", "invalid_argument"},
			{"a header of 40 KB", "GET /health HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 40_000) + "\r\n\r\n", "invalid_argument"},
			{"gzip", "POST /v1/send HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "invalid_argument"},
			{"a good request", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "ok"},
		} {
			t.Run(fmt.Sprint(c.name, protocols), func(t *testing.T) {
				w := over(t, protocols...)
				go w.write(c.bytes)
				got, ok := w.answer()
				if !ok {
					t.Fatal("no answer")
				}
				got.expect(t, c.want)
				if secure := got.header.Get("Strict-Transport-Security") != ""; secure != (c.want == "ok") {
					t.Fatal("the answer of a route does not know of TLS")
				}
			})
		}
	}
	t.Run("plain HTTP", func(t *testing.T) {
		w := r.tap(t)
		w.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		got, ok := w.answer()
		if !ok {
			t.Fatal("no answer")
		}
		got.expect(t, "invalid_argument")
		w.ended()
	})
	t.Run("something else", func(t *testing.T) {
		w := r.tap(t)
		w.write("\x00\x01\x02\x03\x04\x05\x06\x07")
		if _, ok := w.answer(); ok {
			t.Fatal("an answer")
		}
	})
	resp, err := r.client.Get(r.url + "/health")
	must(t, err)
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("others get %s", resp.Proto)
	}
}
