package relayapi_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestAuthPayloadBytes spells out what a request signs.
func TestAuthPayloadBytes(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"inbox":       {relayapi.InboxPayload("-", 100), "\x00\x00\x00\x0c\x00\x00\x00\x01-\x00\x00\x00\x03100"},
		"listen":      {relayapi.ListenPayload("1-2"), "\x00\x00\x00\x07\x00\x00\x00\x031-2"},
		"ack":         {relayapi.AckPayload("1-2"), "\x00\x00\x00\x07\x00\x00\x00\x031-2"},
		"block":       {relayapi.BlockPayload("p", true, 7), "\x00\x00\x00\x13\x00\x00\x00\x01p\x00\x00\x00\x05block\x00\x00\x00\x017"},
		"unblock":     {relayapi.BlockPayload("p", false, 7), "\x00\x00\x00\x15\x00\x00\x00\x01p\x00\x00\x00\x07unblock\x00\x00\x00\x017"},
		"wake":        {relayapi.WakePayload("g", "tt"), "\x00\x00\x00\x0b\x00\x00\x00\x01g\x00\x00\x00\x02tt"},
		"delete wake": {relayapi.WakeDeletePayload(), "\x00\x00\x00\x00"},
		"unregister":  {relayapi.UnregisterPayload(), "\x00\x00\x00\x00"},
	} {
		want := "\x00\x00\x00\x01a\x00\x00\x00\x01n" + c.want
		if got := relayapi.AuthPayload("a", "n", c.payload); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func signed(t *testing.T, a agent, at int64) relayapi.Headers {
	t.Helper()
	h, err := relayapi.SignHeaders(a.Identity, kel.ActionListen, relay, suite.NewNonce(), relayapi.ListenPayload("-"), at)
	must(t, err)
	return h
}

func TestHeadersRoundTrip(t *testing.T) {
	a := newAgent(t, now-10, 0)
	h := signed(t, a, now)
	header := http.Header{"X-Ace-Nonce": {"an earlier attempt's"}}
	h.Apply(header)
	got, err := relayapi.ParseHeaders(header)
	must(t, err)
	if !reflect.DeepEqual(got, h) {
		t.Fatal("the headers read are not those signed")
	}
	must(t, got.Verify(kel.ActionListen, relayapi.ListenPayload("-"), relay, a.State(), now))
}

func TestSigningTimeFollowsTheLog(t *testing.T) {
	a := newAgent(t, now+100, 0)
	if h := signed(t, a, now); h.Timestamp != now+100 {
		t.Fatalf("timestamp %d", h.Timestamp)
	}
	_, err := relayapi.SignHeaders(a.Identity, kel.ActionListen, relay, suite.NewNonce(), nil, -1)
	wantCode(t, err, fault.InvalidArgument)
	expired := newAgent(t, now-100, now-50)
	_, err = relayapi.SignHeaders(expired.Identity, kel.ActionListen, relay, suite.NewNonce(), nil, now)
	wantCode(t, err, fault.IdentityUnavailable)
}

func TestHeadersOnceEach(t *testing.T) {
	good := http.Header{}
	signed(t, newAgent(t, now-10, 0), now).Apply(good)
	for name := range good {
		h := good.Clone()
		delete(h, name)
		_, err := relayapi.ParseHeaders(h)
		wantCode(t, err, fault.InvalidArgument)

		h = good.Clone()
		h[name] = append(h[name], h[name][0])
		_, err = relayapi.ParseHeaders(h)
		wantCode(t, err, fault.InvalidArgument)

		h = good.Clone()
		h[strings.ToUpper(name)] = h[name]
		_, err = relayapi.ParseHeaders(h)
		wantCode(t, err, fault.InvalidArgument)

		h = good.Clone()
		delete(h, name)
		h[strings.ToLower(name)] = good[name]
		_, err = relayapi.ParseHeaders(h)
		must(t, err)
	}
}

// TestVerifyOrder takes a request with every fault at once and repairs them in
// the order of the checks.
func TestVerifyOrder(t *testing.T) {
	a := newAgent(t, now-1000, now+1000)
	old := newAgent(t, now-1000, now-500) // not usable now
	h := signed(t, a, now)
	h.ID, h.Seq, h.Audience, h.Timestamp = old.ACEID(), 2, "https://other.example", now-301
	h.Signature = bytes.Clone(h.Signature)
	h.Signature[0] ^= 1
	check := func(registered *kel.State, at int64, want fault.Code) {
		t.Helper()
		wantCode(t, h.Verify(kel.ActionListen, relayapi.ListenPayload("-"), relay, registered, at), want)
	}
	check(nil, -1, fault.InvalidArgument)
	check(nil, now, fault.NotRegistered)
	check(a.State(), now, fault.NotRegistered) // another identity's log
	check(old.State(), now, relayapi.FutureSeq)
	h.Seq = 0
	check(old.State(), now, relayapi.StaleSeq)
	h.Seq = 1
	check(old.State(), now, fault.InvalidSignature) // audience
	h.Audience = relay
	check(old.State(), now, fault.StaleTimestamp)
	h.Timestamp = now
	check(old.State(), now, fault.StalePeerBinding)
	h.ID = a.ACEID()
	check(a.State(), now, fault.InvalidSignature)
	h.Signature[0] ^= 1
	check(a.State(), now, "")

	rotated, err := a.State().Rotate(a.next, commitment(newKey()), now)
	must(t, err)
	check(rotated, now, fault.StalePeerBinding) // delegates nobody
}

func FuzzHeaders(f *testing.F) {
	f.Add("ace:sha256:"+strings.Repeat("a", 64), "0", "9007199254740991", relay, strings.Repeat("0", 64), strings.Repeat("A", 4412))
	f.Add("", "01", "-1", strings.Repeat("é", 2048), strings.Repeat("A", 64), "")
	f.Fuzz(func(t *testing.T, id, timestamp, seq, audience, nonce, signature string) {
		h, err := relayapi.ParseHeaders(map[string][]string{
			"x-ace-id": {id}, "X-ACE-Timestamp": {timestamp}, "X-Ace-Seq": {seq},
			"X-Ace-Audience": {audience}, "X-Ace-Nonce": {nonce}, "X-Ace-Signature": {signature},
		})
		if err != nil {
			wantCode(t, err, fault.InvalidArgument)
			return
		}
		if wire.Decimal(h.Timestamp) != timestamp || wire.Decimal(h.Seq) != seq || wire.EncodeBase64(h.Signature) != signature {
			t.Fatal("an accepted header is not in its only form")
		}
		again := http.Header{}
		h.Apply(again)
		got, err := relayapi.ParseHeaders(again)
		must(t, err)
		if !reflect.DeepEqual(got, h) {
			t.Fatal("applied headers read differently")
		}
	})
}
