package core_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// postbox keeps the packets that go to a relay.
type postbox struct {
	mu   sync.Mutex
	sent []*packet.Packet
}

func (b *postbox) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/v1/send" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		v, err := wire.Parse(body, wire.MaxJSONDepth)
		if err != nil {
			return nil, err
		}
		part, _ := v.Get("packet")
		p, err := packet.DecodeValue(part)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.sent = append(b.sent, p)
		b.mu.Unlock()
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (b *postbox) last(messageID string) *packet.Packet {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.sent) - 1; i >= 0; i-- {
		if b.sent[i].MessageID == messageID {
			return b.sent[i]
		}
	}
	return nil
}

// What is told of a message is what the relay was given: the recipient, the prekey
// and its kind, and the length of a first attempt, to the byte
// (06#security-considerations, Relay).
func TestShown(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	alice.send(bob, "hello") // whose packet offers bob a peer prekey
	bob.pull()
	posted := &postbox{}
	bob.reopen(func(c *core.Config) { c.Transport = posted })
	out, err := bob.Enqueue(t.Context(), core.OutMessage{To: alice.ACEID(), Body: profile.TextBody("how long is this?")})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := bob.Shown(t.Context(), out.MessageID); err != nil || s.Attempts != 0 || s.Prekey != "" || s.Relay != "" {
		t.Errorf("before: %+v, %v", s, err)
	}
	for n := 1; n <= 2; n++ {
		if out, err = bob.Attempt(t.Context(), out.MessageID); err != nil {
			t.Fatal(err)
		}
		s, err := bob.Shown(t.Context(), out.MessageID)
		p := posted.last(out.MessageID)
		if err != nil || p == nil {
			t.Fatalf("shown %+v, posted %v: %v", s, p, err)
		}
		if s.From != p.From || s.To != p.To || s.Prekey != p.Prekey || s.Attempts != n || s.Relay != r.url || s.PrekeyIsPeer != (n == 1) {
			t.Errorf("attempt %d: shown %+v, posted for %s to %s", n, s, p.To, p.Prekey)
		}
		length := len(p.Payload) - 28
		if n == 1 && (s.PlaintextBytes != length || s.MayBeMore) || n == 2 && (s.PlaintextBytes >= length || !s.MayBeMore) {
			t.Errorf("attempt %d: shown %d bytes, more %v, posted %d", n, s.PlaintextBytes, s.MayBeMore, length)
		}
	}
	if _, err := bob.Shown(t.Context(), "11111111-1111-4111-8111-111111111111"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("an unknown one: %v", err)
	}
}
