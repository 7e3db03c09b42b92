package relaysvc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/relaysvc"
)

// promised are the metrics that operators were told of. A name may be added,
// never taken away.
var promised = strings.Fields(`
	build_info requests_total request_seconds send_total send_commit_seconds queue_entries queue_bytes
	queue_oldest_age_seconds stranger_entries inbox_ack_total listen_streams listen_events_total listen_lag_seconds
	registrations kel_events_max sig_verify_total sig_verify_seconds nonce_cache_entries replay_total wakes_total
	network_bytes_ratio_max store_write_seconds store_fsync_seconds store_size_bytes disk_free_bytes corrupt_rows_total clock_skew_rejects_total draining`)

// scrape is what GET /metrics says: the value of each series, and the kind of
// each name.
type scrape struct {
	t      testing.TB
	text   string
	kinds  map[string]string
	values map[string]float64 // by name and labels, as written
}

func (r *relay) scrape() scrape {
	r.t.Helper()
	got := r.do(call{method: "GET", path: "/metrics"})
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		r.t.Fatalf("metrics: %d %q", got.status, got.header.Get("Content-Type"))
	}
	return parseMetrics(r.t, string(got.body))
}

var (
	metaLine   = regexp.MustCompile(`^# (HELP|TYPE) (ace_relay_[a-z_]+) (.+)$`)
	seriesLine = regexp.MustCompile(`^(ace_relay_[a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)+)\})? (\S+)$`)
	parts      = []string{"_bucket", "_sum", "_count"} // of a histogram
)

// parseMetrics is strict: every series belongs to the name declared last, none
// comes twice, and the buckets of a histogram grow up to its count.
func parseMetrics(t testing.TB, text string) scrape {
	t.Helper()
	s := scrape{t: t, text: text, kinds: map[string]string{}, values: map[string]float64{}}
	if !strings.HasSuffix(text, "\n") {
		t.Fatal("the last line does not end")
	}
	helped, current, bucket := "", "", 0.0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := metaLine.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "HELP":
				helped = m[2]
			case helped != m[2] || s.kinds[m[2]] != "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, m[3]):
				t.Fatalf("out of place: %s", line)
			default:
				current = m[2]
				s.kinds[current] = m[3]
			}
			continue
		}
		m := seriesLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no line of the format: %s", line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		must(t, err)
		part := strings.TrimPrefix(m[1], current)
		histogram := s.kinds[current] == "histogram"
		switch {
		case histogram != slices.Contains(parts, part) || !histogram && part != "":
			t.Fatalf("out of place: %s", line)
		case part == "_bucket" && value < bucket:
			t.Fatalf("fewer than in the bucket before: %s", line)
		case part == "_bucket":
			bucket = value
		case part == "_count" && value != bucket:
			t.Fatalf("%s, and %v in the buckets", line, bucket)
		case part == "_count":
			bucket = 0
		case s.kinds[current] == "counter" && !strings.HasSuffix(current, "_total"):
			t.Fatalf("a counter whose name does not say so: %s", current)
		}
		key := m[1] + "{" + m[2] + "}"
		if _, twice := s.values[key]; twice {
			t.Fatalf("twice: %s", line)
		}
		s.values[key] = value
	}
	return s
}

// want checks the value of a series, such as send_total{result="queued"}.
func (s scrape) want(series string, value float64) {
	s.t.Helper()
	if !strings.Contains(series, "{") {
		series += "{}"
	}
	got, ok := s.values["ace_relay_"+series]
	if !ok || got != value {
		s.t.Errorf("%s is %v (there: %v), want %v", series, got, ok, value)
	}
}

// traffic does a bit of everything at a relay, and returns what must appear
// neither in its metrics nor in its log.
func traffic(r *relay) (secrets []string) {
	t := r.t
	a := r.registered()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Handle: "zaphod-b"}, -1).Raw()))
	from, nobody := strangerID(), strangerID()
	first := a.packet(from)
	r.expect("ok", r.send(first, a.permit(from)))
	r.expect("ok", r.send(first, a.permit(from)))
	r.expect("ok", r.sendFrom("203.0.113.77", a.packet(nobody), nil))
	r.expect("not_permitted", r.send(opaque(from, nobody, epoch, 64), nil))
	r.expect("invalid_packet", r.send([]byte(`{"ace":"1"}`), nil))
	r.expect("stale_timestamp", r.send(opaque(from, a.aceID(), epoch+100_000, 64), a.permit(from)))
	l := a.listen("-")
	l.want("connected", "")
	l.want("catchup", string(first))
	entries := a.messages()
	r.expect("ok", a.ack(entries[0].StreamID))
	nonce := suite.NewNonce()
	for _, want := range []string{"ok", "replay"} {
		r.expect(want, r.do(call{method: "GET", path: "/v1/inbox", header: a.signedAt(kel.ActionInbox, relayapi.InboxPayload("-", 100), r.url, nonce, epoch)}))
	}
	wrong := a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 99))
	r.expect("invalid_signature", r.do(call{method: "GET", path: "/v1/inbox", header: wrong}))
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/card/" + nobody}))
	r.expect("ok", a.get("/v1/handles/zaphod-b"))
	r.expect("not_found", r.do(call{method: "GET", path: "/zaphod/" + a.aceID() + "?x=" + nobody}))
	r.expect("not_found", r.do(call{method: "BREW", path: "/v1/send"}))
	hostile := http.Header{"X-Ace-Id": {nobody + `"} level=ERROR msg=owned`}, "User-Agent": {"zaphod-agent"}}
	r.expect("invalid_argument", r.do(call{method: "GET", path: "/v1/inbox", header: hostile}))
	must(t, l.close())
	hash := func(id string) string { return strings.TrimPrefix(id, "ace:sha256:") }
	return []string{hash(a.aceID()), hash(from), hash(nobody), "zaphod", "203.0.113", "127.0.0.1", "owned", nonce, "kemCiphertext"}
}

// get fetches the JSON of a lookup.
func (r *relay) get(path string) answer {
	r.t.Helper()
	return r.do(call{method: "GET", path: path})
}

// TestMetrics scrapes a relay after traffic of every kind.
func TestMetrics(t *testing.T) {
	r := start(t, nil)
	secrets := traffic(r)
	s := r.scrape()
	for _, name := range promised {
		if s.kinds["ace_relay_"+name] == "" {
			t.Errorf("no metric %s", name)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(s.text, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
	s.want(`send_total{result="queued"}`, 2)
	s.want(`send_total{result="duplicate"}`, 1)
	s.want(`send_total{result="not_permitted"}`, 1)
	s.want(`send_total{result="invalid"}`, 2)
	s.want(`send_total{result="failed"}`, 0)
	s.want("send_commit_seconds_count", 2)
	s.want("inbox_ack_total", 1)
	s.want("replay_total", 1)
	s.want("clock_skew_rejects_total", 1)
	s.want(`sig_verify_total{result="failed"}`, 1)
	s.want("queue_entries", 1)
	s.want("stranger_entries", 1)
	s.want(`registrations{state="registered"}`, 1)
	s.want("kel_events_max", 2)
	s.want("draining", 0)
	s.want("store_up", 1)
	s.want(`listen_events_total{kind="connected"}`, 1)
	s.want(`requests_total{route="POST /v1/send",code="ok"}`, 3)
	s.want(`requests_total{route="POST /v1/send",code="not_permitted"}`, 1)
	s.want(`requests_total{route="GET /v1/card/",code="unknown_peer"}`, 1)
	s.want(`requests_total{route="other",code="not_found"}`, 2)
	s.want(`request_seconds_count{route="POST /v1/send"}`, 6)
}

// TestMetricsOfABrokenStore scrapes a relay whose store is gone.
func TestMetricsOfABrokenStore(t *testing.T) {
	server, err := relaysvc.New(relaysvc.Config{PublicURL: "https://relay.example", DBPath: filepath.Join(t.TempDir(), "data", "relay.db")})
	must(t, err)
	must(t, server.Close())
	rec := httptest.NewRecorder()
	server.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	s := parseMetrics(t, rec.Body.String())
	s.want("store_up", 0)
	if _, ok := s.values["ace_relay_queue_entries{}"]; ok {
		t.Error("a store that does not answer has figures")
	}
}

// metricName finds the metrics that a text is about.
var metricName = regexp.MustCompile(`\bace_relay_[a-z_]+\b`)

// TestOperatorPages checks that what operators copy from docs/relay asks for
// metrics that there are, and only for them.
func TestOperatorPages(t *testing.T) {
	known := start(t, nil).scrape().kinds
	for file, least := range map[string]int{"alerts.yml": 8, "grafana.json": 15, "runbook.md": 1, "monitoring.md": 10} {
		text, err := os.ReadFile("../docs/relay/" + file)
		must(t, err)
		names := map[string]bool{}
		for _, name := range metricName.FindAllString(string(text), -1) {
			base := name
			for _, part := range parts {
				if cut := strings.TrimSuffix(name, part); known[cut] == "histogram" {
					base = cut
				}
			}
			names[base] = true
			if known[base] == "" || known[base] == "histogram" && base == name && file != "monitoring.md" {
				t.Errorf("%s asks for %s, which is none", file, name)
			}
		}
		if len(names) < least {
			t.Errorf("%s asks for %d metrics, want %d", file, len(names), least)
		}
	}
}

// TestAlerts checks that each alert is there, with what it has to have.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../docs/relay/alerts.yml")
	must(t, err)
	for _, name := range strings.Fields("Down StoreDown OldestPacket SlowDisk DiskFloor Failures CorruptRows ClockSkew StreamsNearLimit NoBackup") {
		_, rule, ok := strings.Cut(string(text), fmt.Sprintf("- alert: AceRelay%s\n", name))
		rule, _, _ = strings.Cut(rule, "- alert: ")
		for _, part := range []string{"expr: ", "severity: ", "summary: ", "runbook: "} {
			if !ok || !strings.Contains(rule, part) {
				t.Errorf("alert %s has no %s", name, part)
			}
		}
	}
}
