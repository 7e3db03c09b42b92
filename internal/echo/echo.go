// Package echo is an agent that answers: it accepts the contact of whoever
// wants to exchange ace:text:1, and sends every text back with "echo: " before
// it. Developers get it beside a throwaway relay, as somebody to talk to.
//
// It is an endpoint like any other, on the other side of real HTTP. Its
// identity is made by [Start] and lost with the folder of its store.
package echo

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
)

// Prefix begins every answer. A text that begins with it is an answer already
// and gets none, or two such agents would never end.
const Prefix = "echo: "

// maxText bounds an answer in characters, as the manifest of ace:text:1 does.
const maxText = 262144

const (
	lookInterval = 2 * time.Second // between looks at what is left to do
	againAfter   = time.Second     // after listening that ended with an error
)

// Config says where the agent lives.
type Config struct {
	Relay string       // canonical URL of its home relay, on loopback
	Dir   string       // folder of its store, made with mode 0700
	Clock func() int64 // Unix seconds; nil: the system clock
}

// Agent is an echo agent at work.
type Agent struct {
	endpoint *core.Endpoint
	stop     context.CancelFunc
	tasks    sync.WaitGroup
	news     chan struct{} // holds one token when there is something to do
}

// Start makes an identity, publishes it, and answers until Close. The relay
// has to be serving. Codes: those of [core.Open] and [core.Endpoint.Publish].
func Start(ctx context.Context, c Config) (*Agent, error) {
	if c.Clock == nil {
		c.Clock = func() int64 { return time.Now().Unix() }
	}
	identity, err := kel.Ephemeral(c.Clock())
	if err != nil {
		return nil, err
	}
	endpoint, err := core.Open(ctx, core.Config{
		Identity: identity, StorePath: filepath.Join(c.Dir, "store.db"), VaultKey: suite.NewSeed(),
		Relay: c.Relay, Profiles: []*profile.Manifest{profile.OfficialByID(profile.TextID)}, Loopback: true, Clock: c.Clock, ReceiveBy: "echo",
		Card: descriptor.CardRecord{
			Contact: descriptor.ContactOpen,
			Card:    descriptor.Card{Description: "Answers every text with the same text."},
		},
	})
	if err != nil {
		return nil, err
	}
	if _, err := endpoint.Publish(ctx, core.PublishOptions{}); err != nil {
		return nil, errors.Join(err, endpoint.Close())
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	a := &Agent{endpoint: endpoint, stop: stop, news: make(chan struct{}, 1)}
	a.tasks.Go(func() { a.listen(working) })
	a.tasks.Go(func() { a.work(working) })
	a.tasks.Go(func() { endpoint.Keep(working, core.KeepOptions{}) }) // or it could not be reached after some days
	return a, nil
}

// ACEID returns the agent's ACE ID.
func (a *Agent) ACEID() string { return a.endpoint.ACEID() }

// Close ends the agent.
func (a *Agent) Close() error {
	a.stop()
	a.tasks.Wait()
	return a.endpoint.Close()
}

// listen follows the inbox, also of a relay that fails for long.
func (a *Agent) listen(ctx context.Context) {
	for {
		_ = a.endpoint.Listen(ctx, func(e core.Event) { a.on(ctx, e) })
		select {
		case <-ctx.Done():
			return
		case <-time.After(againAfter):
		}
	}
}

// on queues the answer to a message, which is durable, and leaves what needs
// the network to work: listening must not wait for it.
func (a *Agent) on(ctx context.Context, e core.Event) {
	switch {
	case e.Message != nil:
		a.answer(ctx, *e.Message)
	case e.Request == nil:
		return
	}
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *Agent) answer(ctx context.Context, m core.Message) {
	text := profile.TextOf(m.Body)
	if m.Type != profile.TextType || strings.HasPrefix(text, Prefix) {
		return
	}
	// A peer that was let in has given a permit, and who takes it back wants no
	// answer: there is nothing to do about a failure. The key keeps a message
	// that comes twice from being answered twice.
	_, _ = a.endpoint.Enqueue(ctx, core.OutMessage{
		To: m.From, Type: profile.TextType, ThreadID: m.ThreadID, RequestID: m.MessageID,
		Body: profile.TextBody(cut(Prefix+text, maxText)),
	})
}

// cut returns at most limit characters of s.
func cut(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit])
}

// work decides about the contact requests that are held and makes the attempts
// that are due, again and again: what fails is held or due still.
func (a *Agent) work(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		a.decide(ctx)
		_, _ = a.endpoint.RetryDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.news:
		}
	}
}

func (a *Agent) decide(ctx context.Context) {
	requests, err := a.endpoint.Requests(ctx)
	if err != nil {
		return
	}
	for _, r := range requests {
		if err := a.accept(ctx, r); err != nil && fault.CodeOf(err).Category() == fault.Permanent {
			_ = a.endpoint.Reject(ctx, r.From)
		}
	}
}

// accept lets a requester in who wants to exchange texts.
func (a *Agent) accept(ctx context.Context, r core.ContactRequest) error {
	if r.Profile != profile.TextID {
		return fault.New(fault.NotPermitted, "only texts are answered")
	}
	_, err := a.endpoint.Accept(ctx, r.From)
	return err
}
