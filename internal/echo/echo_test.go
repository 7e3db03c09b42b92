package echo

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newRelay runs a real relay until the test ends and returns its URL.
func newRelay(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url, err := relaysvc.LoopbackURL(ln.Addr())
	must(t, err)
	server, err := relaysvc.New(relaysvc.Config{Development: true, PublicURL: url, DBPath: filepath.Join(t.TempDir(), "relay", "relay.db")})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-served)
		must(t, server.Close())
	})
	return url
}

func newAgent(t *testing.T, relay string) *Agent {
	t.Helper()
	a, err := Start(t.Context(), Config{Relay: relay, Dir: filepath.Join(t.TempDir(), "echo")})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// person is an endpoint that talks to the agent, and what it has received.
type person struct {
	*core.Endpoint
	t *testing.T
}

func newPerson(t *testing.T, relay string) *person {
	t.Helper()
	id, err := kel.Ephemeral(time.Now().Unix())
	must(t, err)
	e, err := core.Open(t.Context(), core.Config{
		Identity: id, StorePath: filepath.Join(t.TempDir(), "person", "store.db"), VaultKey: suite.NewSeed(),
		Relay: relay, Profiles: []*profile.Manifest{profile.OfficialByID(profile.TextID)}, Loopback: true,
	})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	_, err = e.Publish(t.Context(), core.PublishOptions{})
	must(t, err)
	return &person{e, t}
}

// befriend asks the agent for contact and waits until it has been let in.
func (p *person) befriend(a *Agent) {
	p.t.Helper()
	_, err := p.Connect(p.t.Context(), a.ACEID(), profile.TextID, "")
	must(p.t, err)
	p.await(func(e core.Event) bool { return e.Contact != nil && e.Contact.State == "admitted" })
}

func (p *person) say(a *Agent, text, thread string) core.Outgoing {
	p.t.Helper()
	out, err := p.Enqueue(p.t.Context(), core.OutMessage{
		To: a.ACEID(), ThreadID: thread, Body: wire.NewObject(wire.M("message", wire.NewString(text))),
	})
	must(p.t, err)
	out, err = p.Attempt(p.t.Context(), out.MessageID)
	must(p.t, err)
	return out
}

// await listens until an event is the wanted one.
func (p *person) await(wanted func(core.Event) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	found := false
	must(p.t, p.Listen(ctx, func(e core.Event) {
		if wanted(e) {
			found = true
			cancel()
		}
	}))
	if !found {
		p.t.Fatal("it does not come")
	}
}

func isText(e core.Event, text string) bool {
	if e.Message == nil {
		return false
	}
	member, _ := e.Message.Body.Get("message")
	got, _ := member.AsString()
	return got == text
}

func TestEcho(t *testing.T) {
	relay := newRelay(t)
	a, p := newAgent(t, relay), newPerson(t, relay)
	p.befriend(a)
	out := p.say(a, "hello", "thread one")
	var receipt, answer bool
	p.await(func(e core.Event) bool {
		receipt = receipt || e.Receipt != nil && e.Receipt.MessageID == out.MessageID && e.Receipt.Outcome == "delivered"
		if isText(e, "echo: hello") {
			answer = true
			if e.Message.ThreadID != "thread one" {
				t.Errorf("the answer is on thread %q", e.Message.ThreadID)
			}
		}
		return receipt && answer
	})
}

// What is an answer already gets none: the text after it is answered first.
func TestNoAnswerToAnAnswer(t *testing.T) {
	relay := newRelay(t)
	a, p := newAgent(t, relay), newPerson(t, relay)
	p.befriend(a)
	p.say(a, "echo: hello", "")
	p.say(a, "the end", "")
	p.await(func(e core.Event) bool {
		if e.Message != nil && !isText(e, "echo: the end") {
			t.Error("an answer was answered")
		}
		return isText(e, "echo: the end")
	})
}

// Requests for anything else than text are declined.
func TestOtherProfile(t *testing.T) {
	relay := newRelay(t)
	a, p := newAgent(t, relay), newPerson(t, relay)
	if _, err := p.Connect(t.Context(), a.ACEID(), profile.DelegationID, ""); err == nil {
		t.Error("the agent lists another profile than text")
	}
}

// Two agents at one relay are two identities.
func TestEachStartIsSomebodyElse(t *testing.T) {
	relay := newRelay(t)
	first, second := newAgent(t, relay), newAgent(t, relay)
	if first.ACEID() == second.ACEID() {
		t.Error("both have one identity")
	}
}

func TestStartNeedsItsRelay(t *testing.T) {
	_, err := Start(t.Context(), Config{Relay: "http://127.0.0.1:1", Dir: filepath.Join(t.TempDir(), "echo")})
	if err == nil {
		t.Fatal("started without a relay")
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü"}, {"", 3, ""},
	} {
		if got := cut(c.in, c.limit); got != c.want {
			t.Errorf("cut(%q, %d) = %q", c.in, c.limit, got)
		}
	}
	if got := cut(Prefix+strings.Repeat("x", maxText), maxText); len(got) != maxText || !strings.HasPrefix(got, Prefix) {
		t.Errorf("a text of the greatest length is cut to %d", len(got))
	}
}
