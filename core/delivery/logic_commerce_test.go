package delivery_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicCommerce covers commerce#messages, commerce#settlement and
// commerce#threads, with the state of threads in a real store.
func TestLogicCommerce(t *testing.T) {
	runLogic(t, "commerce.json", commerceAnswer, func(t *testing.T, config *wire.Reader, _ []wire.Value) step {
		return newCommerceTrace(t, config.String("local")).step
	})
}

func commerceAnswer(t *testing.T, r *wire.Reader) wire.Value {
	if kind := r.String("kind"); kind != "body" {
		t.Fatalf("unknown kind %q", kind)
	}
	return wire.NewObject(wire.M("error", codeValue(commerce.CheckBody(r.String("type"), r.Value("body")))))
}

func codeValue(err error) wire.Value { return text(string(fault.CodeOf(err))) }

// commerceTrace judges the events of one local agent. Nothing is signed: the
// rule sees what the pipeline has verified before.
type commerceTrace struct {
	*endpoint
	local string
	set   *profile.Set
}

func newCommerceTrace(t *testing.T, local string) *commerceTrace {
	e := newWorld().newIdentity(t)
	installOfficial(t, e.set, profile.CommerceID)
	if err := e.set.Govern(commerce.Rule{}); err != nil {
		t.Fatal(err)
	}
	e.open()
	return &commerceTrace{endpoint: e, local: local, set: e.set}
}

func installOfficial(t testing.TB, set *profile.Set, id string) {
	t.Helper()
	if err := set.Install(profile.OfficialByID(id)); err != nil {
		t.Fatal(err)
	}
}

func (c *commerceTrace) state(tx *store.Tx) profile.State {
	return profile.State{Local: c.local, Threads: delivery.Threads(tx, profile.CommerceID, c.local)}
}

func (c *commerceTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	switch op {
	case "open_many":
		return c.openMany(t, r)
	case "may_delete":
		return c.mayDelete(r)
	}
	event, body := readEvent(r.Object("event")), r.Value("body")
	rule, governed := c.set.Rule(event.Type)
	var verdict error
	c.update(func(tx *store.Tx) error {
		if !governed {
			return nil
		}
		if op != "commit" {
			verdict = rule.Check(c.state(tx), event, body)
		}
		if op == "check" || verdict != nil {
			return nil
		}
		return rule.Commit(c.state(tx), event, body)
	})
	answer := wire.NewObject(wire.M("error", codeValue(verdict)))
	if event.ThreadID == "" {
		return answer
	}
	peer := event.From
	if peer == c.local {
		peer = event.To
	}
	return c.addThread(answer, peer, event.ThreadID)
}

func readEvent(r *wire.Reader) profile.Event {
	e := profile.Event{
		Direction: profile.Direction(r.String("direction")), From: r.String("from"), To: r.String("to"),
		MessageID: r.String("messageId"), Timestamp: r.Int("timestamp"), Type: r.String("type"),
	}
	if r.Has("threadId") {
		e.ThreadID = r.String("threadId")
	}
	return e
}

func (c *commerceTrace) addThread(answer wire.Value, peer, threadID string) wire.Value {
	var thread profile.Thread
	c.view(func(tx *store.Tx) (err error) {
		thread, err = c.state(tx).Threads.Thread(peer, threadID)
		return err
	})
	answer = answer.With("state", wire.NewString(string(commerce.StateOf(thread)))).
		With("history_length", wire.NewInt(int64(thread.Length))).With("head", wire.Value{})
	if thread.Length == 0 {
		return answer
	}
	for _, party := range []string{c.local, peer} {
		if commerce.RoleOf(thread, party) == commerce.Buyer {
			answer = answer.With("buyer", wire.NewString(party))
		}
	}
	h := thread.Head
	return answer.With("head", wire.NewObject(
		wire.M("type", wire.NewString(h.Type)), wire.M("messageId", wire.NewString(h.MessageID)),
		wire.M("timestamp", wire.NewInt(h.Timestamp)), wire.M("from", wire.NewString(h.From)),
	))
}

func (c *commerceTrace) openMany(t *testing.T, r *wire.Reader) wire.Value {
	e := profile.Event{Direction: profile.Receive, From: r.String("from"), To: r.String("to"), Timestamp: r.Int("timestamp"), Type: commerce.RFQ}
	peer := e.From
	if e.From == c.local {
		e.Direction, peer = profile.Send, e.To
	}
	threadPrefix, idPrefix := r.String("thread_prefix"), r.String("message_id_prefix")
	body := wire.NewObject(wire.M("need", wire.NewString("x")))
	var open int
	c.update(func(tx *store.Tx) (err error) {
		s := c.state(tx)
		for i := range r.Int("count") {
			e.ThreadID, e.MessageID = fmt.Sprint(threadPrefix, i), fmt.Sprintf("%s%012x", idPrefix, i)
			if err := errors.Join(commerce.Rule{}.Check(s, e, body), commerce.Rule{}.Commit(s, e, body)); err != nil {
				t.Fatalf("thread %d: %v", i, err)
			}
		}
		open, err = s.Threads.CountOpen(peer)
		return err
	})
	return wire.NewObject(wire.M("open_threads", wire.NewInt(int64(open))))
}

// errUndo takes a transaction back.
var errUndo = errors.New("undo")

// mayDelete asks whether a thread would go now, and keeps it.
func (c *commerceTrace) mayDelete(r *wire.Reader) wire.Value {
	peer, threadID, before := r.String("peer"), r.String("threadId"), commerce.DeletableBefore(r.Int("now"))
	var left bool
	err := c.store.Update(c.t.Context(), func(tx *store.Tx) error {
		_, err := tx.DeleteThreads(profile.CommerceID, before)
		if err != nil {
			return err
		}
		if _, left, err = tx.Thread(profile.CommerceID, peer, threadID); err != nil {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		c.t.Fatal(err)
	}
	return wire.NewObject(wire.M("may_delete", wire.NewBool(!left)))
}
