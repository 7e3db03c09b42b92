package relaysvc_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

// handler returns the handler of a relay with an open recipient, and the
// recipient.
func handler(f *testing.F) (http.Handler, *agent) {
	f.Helper()
	const public = "http://127.0.0.1:1"
	server, err := relaysvc.New(relaysvc.Config{
		PublicURL:   public,
		Development: true,
		DBPath:      filepath.Join(f.TempDir(), "data", "relay.db"),
		Clock:       func() int64 { return epoch },
	})
	must(f, err)
	f.Cleanup(func() { server.Close() })
	r := &relay{t: f, url: public}
	r.now.Store(epoch)
	a := r.newAgent()
	for _, c := range []struct {
		path string
		body []byte
	}{
		{"/v1/register", a.registration(epoch)},
		{"/v1/descriptor", a.descriptor(-1).Raw()},
		{"/v1/card", a.card(descriptor.CardRecord{}, -1).Raw()},
	} {
		serve(f, server.Handler(), "POST", c.path, c.body).expect(f, "ok")
	}
	return server.Handler(), a
}

func serve(t testing.TB, h http.Handler, method, target string, body []byte) answer {
	t.Helper()
	req := httptest.NewRequest("POST", "/", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	u, err := url.Parse(target)
	if err != nil {
		t.Skip("net/http answers this itself")
	}
	req.Method, req.URL = method, u
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// FuzzSend posts any body to /v1/send: the answer has the form of 07#errors and
// blames the sender, or the body holds a packet of 03#decoding.
func FuzzSend(f *testing.F) {
	h, a := handler(f)
	from := strangerID()
	p := a.packet(from)
	f.Add(relayapi.SendBody(p, a.permit(from)))
	f.Add(relayapi.SendBody(p, nil))
	f.Add(relayapi.SendBody(p, []byte(`null`)))
	f.Add(relayapi.SendBody(opaque(from, strangerID(), epoch, 28), nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := serve(t, h, "POST", "/v1/send", body)
		switch code := got.outcome(t); code {
		case "internal_error":
			t.Fatalf("the relay failed: %s", got.body)
		case "ok":
			v, err := relayapi.ParseBody(body)
			must(t, err)
			send, err := relayapi.ParseSend(v)
			must(t, err)
			_, err = packet.DecodeValue(send.Packet)
			must(t, err)
		}
	})
}

// FuzzRequest sends any body anywhere: every answer is JSON of 07#errors or a
// success, and none is a redirect or the relay's own failure.
func FuzzRequest(f *testing.F) {
	h, a := handler(f)
	f.Add("POST", "/v1/register", a.registration(epoch))
	f.Add("POST", "/v1/descriptor", a.descriptor(-1).Raw())
	f.Add("GET", "/v1/cards?tag=a&cursor=%00&limit=1", []byte{})
	f.Add("GET", "/v1/handles/..%2f..", []byte{})
	f.Add("GET", "/v1/inbox?since=1-1", []byte{})
	f.Fuzz(func(t *testing.T, method, target string, body []byte) {
		got := serve(t, h, method, target, body)
		if code := got.outcome(t); code == "internal_error" {
			t.Fatalf("%s %q: %s", method, target, got.body)
		}
	})
}
