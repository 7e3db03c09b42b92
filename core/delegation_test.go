package core_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// serving answers requests to a path in place of the relay.
type serving struct {
	path string
	body []byte
}

func (s *serving) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != s.path {
		return http.DefaultTransport.RoundTrip(r)
	}
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", relayapi.MediaJSON)
	answer.Write(s.body)
	return answer.Result(), nil
}

// TestCredential holds delegation#verifying-a-credential: the answer follows the
// issuer's pin, and an issuer who cannot be looked up is no answer.
func TestCredential(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, closed()), newAgent(t, r, closed()), newAgent(t, r, closed())
	carol.publish(false)
	c, err := alice.IssueCredential(bob.ACEID(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.IssueCredential(alice.ACEID(), 60); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("to oneself: %v", err)
	}
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("an issuer whom no relay knows: %v", err)
	}
	if _, err := alice.VerifyCredential(t.Context(), c.Value()); err != nil {
		t.Errorf("by its issuer, whom no relay knows: %v", err)
	}
	alice.publish(false)
	got, err := carol.VerifyCredential(t.Context(), c.Value())
	if err != nil || got.Issuer != alice.ACEID() || got.Subject != bob.ACEID() {
		t.Fatalf("%+v: %v", got, err)
	}
	forged := c.Value().With("subject", wire.NewString(carol.ACEID()))
	if _, err := carol.VerifyCredential(t.Context(), forged); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("forged: %v", err)
	}
	// A relay that serves an older descriptor changes nothing about the pin.
	client := relayclient.New(relayclient.Config{Identity: carol.config.Identity, URLs: wire.Development})
	defer client.Close()
	older, err := client.Descriptor(t.Context(), r.url, alice.ACEID())
	if err != nil {
		t.Fatal(err)
	}
	alice.publish(true)
	if _, err := carol.Lookup(t.Context(), alice.ACEID()); err != nil {
		t.Fatal(err)
	}
	carol.reopen(func(c *core.Config) { c.Transport = &serving{"/v1/descriptor/" + alice.ACEID(), older.Canonical()} })
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); err != nil {
		t.Errorf("beside an older descriptor: %v", err)
	}
	carol.reopen(func(c *core.Config) { c.Transport = nil })
	// The answer follows the pin: the key that signed it is superseded now.
	alice.delegate(r)
	alice.publish(false)
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.StalePeerBinding) {
		t.Errorf("after a new key of the issuer: %v", err)
	}
	if c, err = alice.IssueCredential(bob.ACEID(), 60); err != nil {
		t.Fatal(err)
	}
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); err != nil {
		t.Errorf("signed by the new key: %v", err)
	}
	r.ahead.Add(60)
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("expired: %v", err)
	}
}
