package relaysvc_test

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

// logged runs a relay with a log of the level debug.
func logged(t testing.TB, change func(*relaysvc.Config)) (*relay, *syncBuffer) {
	t.Helper()
	log := &syncBuffer{}
	r := start(t, func(c *relaysvc.Config) {
		c.Log = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
		if change != nil {
			change(c)
		}
	})
	return r, log
}

// TestLogOfHostileTraffic looks in the log of every level for what must never
// be there.
func TestLogOfHostileTraffic(t *testing.T) {
	r, log := logged(t, nil)
	secrets := traffic(r)
	r.stop()
	text := log.String()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	for _, line := range []string{
		`level=INFO msg=request route="POST /v1/send" code=not_permitted status=403 duration=`,
		`level=INFO msg=request route="GET /v1/inbox" code=replay status=409 duration=`,
		`level=INFO msg=request route=other code=not_found status=404 duration=`,
		`level=DEBUG msg=request route="POST /v1/send" code=ok status=200 duration=`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the log has no %s", line)
		}
	}
	request := regexp.MustCompile(`^time=\S+ level=(?:INFO|DEBUG) msg=request route=(?:"[A-Z]+ /[a-z0-9/]+"|other) code=[a-z_]+ status=\d{3} duration=\S+ bytes=\d+$`)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "msg=request") && !request.MatchString(strings.TrimSpace(line)) {
			t.Errorf("a line says more: %s", line)
		}
	}
}

// TestLogMetadata shows what the operator gets who asked for it: networks, and
// callers under names that lead back to nobody.
func TestLogMetadata(t *testing.T) {
	r, log := logged(t, func(c *relaysvc.Config) { c.LogMetadata = true })
	a := r.registered()
	for range 2 {
		header := a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100))
		r.expect("ok", r.do(call{method: "GET", path: "/v1/inbox", header: header, network: "203.0.113.77"}))
	}
	r.stop()
	callers := regexp.MustCompile(`network=203\.0\.113\.0/24 caller=([0-9a-f]{12})\n`).FindAllStringSubmatch(log.String(), -1)
	if len(callers) != 2 || callers[0][1] != callers[1][1] {
		t.Fatalf("callers %v:\n%s", callers, log)
	}
	if strings.Contains(log.String(), strings.TrimPrefix(a.aceID(), "ace:sha256:")) || strings.Contains(log.String(), "203.0.113.77") {
		t.Errorf("the log names the caller:\n%s", log)
	}
}

// TestLogMetadataOfAStream over HTTP/2, whose request is forgotten while it goes
// on.
func TestLogMetadataOfAStream(t *testing.T) {
	log := &syncBuffer{}
	r := startTLS(t, newPairFiles(t), func(c *relaysvc.Config) {
		c.LogMetadata, c.Log = true, slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	})
	a := r.registered()
	header := a.signed(kel.ActionListen, relayapi.ListenPayload("-"))
	header.Set("X-Forwarded-For", "203.0.113.77")
	a.listenTo("?since=-", header).want("connected", "")
	r.stop()
	if !regexp.MustCompile(`route="GET /v1/listen" .* network=203\.0\.113\.0/24 caller=[0-9a-f]{12}\n`).MatchString(log.String()) {
		t.Fatalf("the log has no line about the caller of the stream:\n%s", log)
	}
}

// TestPseudonymsDoNotLast logs one identity in two runs of a relay.
func TestPseudonymsDoNotLast(t *testing.T) {
	r, log := logged(t, func(c *relaysvc.Config) { c.LogMetadata = true })
	a := r.registered()
	names := regexp.MustCompile(`caller=([0-9a-f]{12})`)
	r.expect("ok", a.inbox())
	first := names.FindString(log.String())
	r.stop()
	again := &syncBuffer{}
	r.run(func(c *relaysvc.Config) {
		c.LogMetadata, c.Log = true, slog.NewTextHandler(again, &slog.HandlerOptions{Level: slog.LevelDebug})
	})
	r.expect("ok", a.inbox())
	r.stop()
	if second := names.FindString(again.String()); first == "" || second == "" || first == second {
		t.Errorf("%q and then %q", first, second)
	}
}

// TestForgottenProxy forwards requests of two clients to a relay that trusts no
// proxy. It says so, once.
func TestForgottenProxy(t *testing.T) {
	for name, c := range map[string]struct {
		trusted  bool
		networks []string
		want     int
	}{
		"two clients":     {false, []string{"203.0.113.7", "198.51.100.7", "192.0.2.7"}, 1},
		"one client":      {false, []string{"203.0.113.7", "203.0.113.7"}, 0},
		"a trusted proxy": {true, []string{"203.0.113.7", "198.51.100.7"}, 0},
		"no proxy":        {false, []string{"", ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, log := logged(t, func(config *relaysvc.Config) {
				if !c.trusted {
					config.TrustedProxies = nil
				}
			})
			for _, network := range c.networks {
				r.do(call{method: "GET", path: "/health", network: network})
			}
			r.stop()
			if n := strings.Count(log.String(), "trusted_proxies"); n != c.want {
				t.Errorf("%d warnings:\n%s", n, log)
			}
		})
	}
}
