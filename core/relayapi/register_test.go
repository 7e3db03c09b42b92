package relayapi_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func registration(t testing.TB, a agent, at int64) *relayapi.Registration {
	t.Helper()
	r, err := relayapi.BuildRegistration(a.Identity, relay, at)
	must(t, err)
	return r
}

func TestRegistrationRoundTrip(t *testing.T) {
	a := newAgent(t, now-10, 0)
	built := registration(t, a, now)
	kels := kel.NewCache(8)
	for range 2 { // the second time from the cache
		got, err := relayapi.VerifyRegistrationBytes(built.Raw, relay, now, relayapi.Options{KELs: kels})
		must(t, err)
		if got.ACEID != built.ACEID || got.Timestamp != now || got.MDigest != built.MDigest ||
			got.State.LastHash() != a.State().LastHash() || !bytes.Equal(got.Raw, built.Raw) {
			t.Fatal("the registration read is not the one built")
		}
	}
	payload := "\x00\x00\x00\x40" + a.State().LastHash() + "\x00\x00\x00\x15" + relay
	m := "\x00\x00\x00\x06ace.v1\x00\x00\x00\x4b" + a.ACEID() + "\x00\x00\x00\x0a1760140800\x00\x00\x00\x011\x00\x00\x00\x5d" + payload
	if built.MDigest != suite.Hex256([]byte(m)) {
		t.Error("the digest is not that of M")
	}
}

func TestRegistrationRefusals(t *testing.T) {
	a := newAgent(t, now-10, 0)
	good := string(registration(t, a, now).Raw)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	withKEL := func(bytes int) string {
		v, err := wire.Parse([]byte(good), wire.MaxJSONDepth)
		must(t, err)
		return string(v.With("kel", wire.NewString(strings.Repeat("x", bytes))).Canonical())
	}
	room := wire.MaxPublishedAgentBytes - len(withKEL(0))
	for _, c := range []struct {
		name, text, audience string
		now                  int64
		code                 fault.Code
	}{
		{"clock", good, relay, -1, fault.InvalidArgument},
		{"no json", good[1:], relay, now, relayapi.InvalidRegistration},
		{"deep", strings.Replace(good, `"kel":[`, `"kel":[`+deep+`,`, 1), relay, now, relayapi.InvalidRegistration},
		{"large", strings.Replace(good, `"kel":[`, `"kel":["`+strings.Repeat("x", 1<<20)+`",`, 1), relay, now, relayapi.InvalidRegistration},
		{"unknown member", strings.Replace(good, `"kel"`, `"x":1,"kel"`, 1), relay, now, relayapi.InvalidRegistration},
		{"audience of http", strings.Replace(good, `"https:`, `"http:`, 1), relay, now, relayapi.InvalidRegistration},
		{"another audience", good, "https://other.example", now, fault.InvalidSignature},
		{"old", good, relay, now + 301, fault.StaleTimestamp},
		{"early", good, relay, now - 301, fault.StaleTimestamp},
		{"largest", withKEL(room), relay, now, fault.InvalidKEL},
		{"one byte more", withKEL(room + 1), relay, now, relayapi.InvalidRegistration},
		{"kel is no list", strings.Replace(good, `"kel":[`, `"kel":"x","y":[`, 1), relay, now, relayapi.InvalidRegistration},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := relayapi.VerifyRegistrationBytes([]byte(c.text), c.audience, c.now, relayapi.Options{})
			wantCode(t, err, c.code)
		})
	}
}

func TestRegistrationDevelopmentURL(t *testing.T) {
	a := newAgent(t, now-10, 0)
	r, err := relayapi.BuildRegistration(a.Identity, "http://127.0.0.1:8080", now)
	must(t, err)
	_, err = relayapi.VerifyRegistrationBytes(r.Raw, "http://127.0.0.1:8080", now, relayapi.Options{URLs: wire.Development})
	must(t, err)
	_, err = relayapi.VerifyRegistrationBytes(r.Raw, "http://127.0.0.1:8080", now, relayapi.Options{})
	wantCode(t, err, relayapi.InvalidRegistration)
}

// TestAgainst covers what the traces of horizons.json do not reach with real
// requests: the record as a relay keeps it.
func TestAgainst(t *testing.T) {
	a := newAgent(t, now-1000, 0)
	first := registration(t, a, now)
	kept := func(registered bool, barrier int64) *relayapi.Record {
		return &relayapi.Record{State: a.State(), Timestamp: now, MDigest: first.MDigest, Registered: registered, Barrier: barrier}
	}
	horizon := relayapi.NewHorizon(a.State(), now)
	redelegated := a.delegated(t, a.State(), now-10, 0)
	recovered := a.recovered(t, now-10)
	for _, c := range []struct {
		name    string
		r       *relayapi.Registration
		record  *relayapi.Record
		horizon *relayapi.Horizon
		status  relayapi.Status
		code    fault.Code
	}{
		{"new", first, nil, nil, relayapi.Registered, ""},
		{"again", first, kept(true, relayapi.NoBarrier), nil, relayapi.Idempotent, ""},
		{"newer", registration(t, a, now+1), kept(true, relayapi.NoBarrier), nil, relayapi.Refreshed, ""},
		{"older", registration(t, a, now-1), kept(true, relayapi.NoBarrier), nil, "", relayapi.IdentityConflict},
		{"extended", registration(t, redelegated, now+1), kept(true, relayapi.NoBarrier), nil, relayapi.Rotated, ""},
		{"recovered", registration(t, recovered, now+1), kept(true, relayapi.NoBarrier), nil, relayapi.Rotated, ""},
		{"extended at the same time", registration(t, redelegated, now), kept(true, relayapi.NoBarrier), nil, "", relayapi.IdentityConflict},
		{"replayed after unregister", first, kept(false, now+5), nil, "", relayapi.IdentityConflict},
		{"above the barrier", registration(t, a, now+6), kept(false, now+5), nil, relayapi.Registered, ""},
		{"horizon", registration(t, a, now+1), nil, &horizon, relayapi.Registered, ""},
		{"horizon, at the barrier", first, nil, &horizon, "", relayapi.IdentityConflict},
		{"horizon, recovered", registration(t, recovered, now+1), nil, &horizon, relayapi.Registered, ""},
		{"horizon, another log", registration(t, newAgent(t, now-1000, 0), now+1), nil, &horizon, "", fault.KELConflict},
		{"record and horizon", registration(t, a, now+1), kept(true, relayapi.NoBarrier), &horizon, relayapi.Refreshed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, err := c.r.Against(c.record, c.horizon)
			wantCode(t, err, c.code)
			if status != c.status {
				t.Fatalf("status %q", status)
			}
		})
	}
	wantCode(t, kept(true, relayapi.NoBarrier).Unregister(now), relayapi.IdentityConflict)
	must(t, kept(true, relayapi.NoBarrier).Unregister(now+1))
}

func FuzzRegistration(f *testing.F) {
	good := registration(f, newAgent(f, now-10, 0), now).Raw
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"timestamp":1760140800`), []byte(`"timestamp":1.7601408e9`), 1))
	f.Add([]byte(`{"aceId":"","kel":[],"timestamp":0,"audience":"","signature":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := relayapi.VerifyRegistrationBytes(data, relay, now, relayapi.Options{})
		if err != nil {
			if fault.CodeOf(err) == "" {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		must(t, err)
		if !bytes.Equal(r.Raw, v.Canonical()) {
			t.Fatal("Raw is not the canonical form of the request")
		}
	})
}
