package core_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
)

// recreate ends the relay, removes all that it has kept, and runs it again at the
// same address.
func (r *relay) recreate(t *testing.T) {
	t.Helper()
	at, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := os.RemoveAll(filepath.Dir(r.config.DBPath)); err != nil {
		t.Fatal(err)
	}
	r.ahead.Add(1) // a store is made in a second of its own
	r.serve(t, at.Host)
}

// following is an agent that listens and keeps itself reachable, as ace listen
// does.
type following struct {
	t     *testing.T
	texts chan string
	stop  func()
}

func follow(a *agent) *following {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	f := &following{t: a.t, texts: make(chan string, 100)}
	var tasks sync.WaitGroup
	connected := make(chan struct{}, 100)
	tasks.Go(func() { a.Keep(ctx, core.KeepOptions{}) })
	tasks.Go(func() {
		err := a.Listen(ctx, func(e core.Event) {
			switch {
			case e.Message != nil:
				f.texts <- profile.TextOf(e.Message.Body)
			case e.Connection != nil && e.Connection.State == "connected":
				connected <- struct{}{}
			}
		})
		if err != nil {
			a.t.Errorf("listening ended with %v", err)
		}
	})
	f.stop = sync.OnceFunc(func() {
		cancel()
		tasks.Wait()
	})
	a.t.Cleanup(f.stop)
	select {
	case <-connected:
	case <-time.After(30 * time.Second):
		a.t.Fatal("the stream does not connect")
	}
	return f
}

// gets waits for messages, in order.
func (f *following) gets(texts ...string) {
	f.t.Helper()
	for _, want := range texts {
		select {
		case got := <-f.texts:
			if got != want {
				f.t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(60 * time.Second):
			f.t.Fatalf("%q does not come", want)
		}
	}
}

// insist attempts a message until a relay takes it: to one that was made anew
// nobody is registered until the listener has found out.
func (a *agent) insist(to *agent, text string) {
	a.t.Helper()
	out, err := a.Enqueue(a.t.Context(), core.OutMessage{To: to.ACEID(), Body: profile.TextBody(text)})
	if err != nil {
		a.t.Fatal(err)
	}
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err = a.Attempt(a.t.Context(), out.MessageID); err == nil {
			return
		}
	}
	a.t.Fatalf("%q is not taken: %v", text, err)
}

// A relay that has lost all it had and is there again at the same address gets
// the listener back by itself: it registers, reads from the beginning and
// publishes, and nothing that is sent from then on is skipped, however far the
// stream was before; also when it happens again.
func TestRelayMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, open()), newAgent(t, r, closed()), newAgent(t, r, closed())
	befriend(bob, alice)
	f := follow(alice)
	for _, text := range []string{"1", "2", "3", "4", "5"} {
		bob.send(alice, text)
	}
	f.gets("1", "2", "3", "4", "5")

	for _, texts := range [][2]string{{"first", "second"}, {"third", "fourth"}} {
		r.recreate(t)
		bob.insist(alice, texts[0])
		bob.insist(alice, texts[1])
		f.gets(texts[0], texts[1])
	}

	// Somebody who has never met alice finds her.
	carol.wait("alice to be found", func() error {
		_, err := carol.Lookup(t.Context(), alice.ACEID())
		return err
	})
}

// wait repeats f until it succeeds.
func (a *agent) wait(what string, f func() error) {
	a.t.Helper()
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	a.t.Fatalf("waited for %s: %v", what, err)
}

// Where another process of the identity has registered it before the listener is
// back, its stream goes on where it was at the relay that is gone, and skips
// nothing of the one that is there (07#client-rules: "with since set to the last
// processed id").
func TestRelayMadeAnewAndRegisteredByAnother(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	f := follow(alice)
	for _, text := range []string{"1", "2", "3", "4", "5"} {
		bob.send(alice, text)
	}
	f.gets("1", "2", "3", "4", "5")
	other, err := core.Open(t.Context(), alice.config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r.recreate(t)
	if _, err := other.Publish(t.Context(), core.PublishOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	bob.insist(alice, "first")
	bob.insist(alice, "second")
	f.gets("first", "second")
}
