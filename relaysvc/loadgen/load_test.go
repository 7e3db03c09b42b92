package loadgen

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// queued returns how many packets the recipients of a load have.
func queued(t *testing.T, l *Load) (n int) {
	t.Helper()
	for _, r := range l.recipients {
		c := r.client(l.target.url)
		entries, err := c.Inbox(t.Context(), l.target.url, "-", 100, time.Now().Unix())
		c.Close()
		must(t, err)
		n += len(entries)
	}
	return n
}

// TestSend also finds out whether all packets are different: the relay accepts
// one that is queued already and keeps it once (07#send step 3).
func TestSend(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{})
	l, err := Open(t.Context(), Config{URL: url, Senders: 3, Recipients: 2, Size: 12_000})
	must(t, err)
	for _, clients := range []int{1, 3} {
		r, err := l.Send(t.Context(), Pace{Clients: clients, Duration: MaxDuration, Count: 30})
		must(t, err)
		if r.Accepted != 30 || len(r.Errors) != 0 || r.Clients != clients || r.Latency.P50 <= 0 || r.ProcessCPU != -1 {
			t.Errorf("%+v", r)
		}
	}
	if n := queued(t, l); n != 60 {
		t.Errorf("%d packets are queued, not 60", n)
	}
	if size := l.BodySize(); size < 12_000 || size > 12_003 {
		t.Errorf("a body has %d bytes", size)
	}
	_, err = l.Send(t.Context(), Pace{Clients: 4, Duration: time.Second})
	wantCode(t, err, fault.InvalidArgument)

	must(t, l.Close(t.Context()))
	c := l.recipients[0].client(url)
	defer c.Close()
	_, err = c.Inbox(t.Context(), url, "-", 100, time.Now().Unix())
	wantCode(t, err, fault.NotRegistered)
	must(t, l.Close(t.Context())) // once more does no harm
}

// TestFullQueues ends a load by itself when nobody can take anything more.
func TestFullQueues(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{QueueEntries: 8, SenderEntries: 8})
	l, err := Open(t.Context(), Config{URL: url, Senders: 2, Recipients: 3, Size: 12_000})
	must(t, err)
	r, err := l.Send(t.Context(), Pace{Clients: 2, Duration: MaxDuration})
	must(t, err)
	if r.Accepted != 24 || errorsOf(r.Errors)["recipient_inbox_full"] != 3 {
		t.Errorf("%+v", r)
	}
	must(t, l.Close(t.Context()))
}

// TestOpenCleansUp lets the relay refuse some of the registrations.
func TestOpenCleansUp(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{Publications: 4})
	c := Config{URL: url, Recipients: 6}
	_, err := Open(t.Context(), c)
	wantCode(t, err, fault.RelayUnavailable)

	// The same step by step, on a relay that takes four again.
	url, _ = startRelay(t, relaysvc.Limits{Publications: 4})
	c.URL = url
	must(t, c.check())
	target, err := newTarget(url)
	must(t, err)
	l := &Load{target: target, clock: c.Clock, recipients: make([]*recipient, c.Recipients)}
	wantCode(t, l.prepare(t.Context(), c), fault.RelayUnavailable)
	must(t, l.Close(t.Context()))
	for _, r := range l.recipients {
		if r == nil {
			continue
		}
		c := r.client(url)
		_, err := c.Inbox(t.Context(), url, "-", 1, time.Now().Unix())
		c.Close()
		wantCode(t, err, fault.NotRegistered)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, Config{URL: url, Recipients: 2})
	wantCode(t, err, fault.RelayUnavailable)
}

// TestInterruptedRegistration ends the context while the relay looks at a
// registration. Given up there, it would be accepted after the clean-up.
func TestInterruptedRegistration(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url := "http://" + ln.Addr().String()
	relay, err := relaysvc.New(relaysvc.Config{
		Development: true, PublicURL: url, DBPath: filepath.Join(t.TempDir(), "data", "relay.db"),
	})
	must(t, err)
	var mu sync.Mutex
	var asked []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		cancel()
		relay.Handler().ServeHTTP(w, r)
	})}
	ended := make(chan error)
	go func() { ended <- server.Serve(ln) }()

	_, err = Open(ctx, Config{URL: url, Recipients: 1})
	wantCode(t, err, fault.RelayUnavailable)
	if !slices.Equal(asked, []string{"/v1/register", "/v1/unregister"}) {
		t.Errorf("the relay was asked for %v", asked)
	}
	must(t, server.Close())
	<-ended
	must(t, relay.Close())
}

func TestConfigBounds(t *testing.T) {
	good := Config{URL: "http://127.0.0.1:1"}
	for name, change := range map[string]func(*Config){
		"no URL":              func(c *Config) { c.URL = "" },
		"no canonical URL":    func(c *Config) { c.URL = "http://127.0.0.1:1/" },
		"http elsewhere":      func(c *Config) { c.URL = "http://relay.example" },
		"too many senders":    func(c *Config) { c.Senders = MaxClients + 1 },
		"negative recipients": func(c *Config) { c.Recipients = -1 },
		"too many recipients": func(c *Config) { c.Recipients = MaxRecipients + 1 },
		"too large":           func(c *Config) { c.Size = 3 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			change(&c)
			_, err := Open(t.Context(), c)
			wantCode(t, err, fault.InvalidArgument)
		})
	}
	url, _ := startRelay(t, relaysvc.Limits{})
	_, err := Open(t.Context(), Config{URL: url, Recipients: 1, Size: 5000})
	wantCode(t, err, fault.InvalidArgument) // a permit and a signature alone have more
}

func TestMetric(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{})
	target, err := newTarget(url)
	must(t, err)
	l := &Load{target: target}
	if n := l.metric(t.Context(), "no_such_metric"); n != -1 {
		t.Error(n)
	}
}
