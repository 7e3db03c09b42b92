package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

type sendOptions struct {
	known              vocabulary
	connect, noAttempt bool
	wait               string // "", relayed or delivered
	messageType        string
	body, bodyFile     string
	set, setFiles      []string
	thread, requestID  string
	opened             bool // the thread is one that nobody has named
}

func newSendCmd(a *app) *cobra.Command {
	var o sendOptions
	c := &cobra.Command{
		Use:               "send PEER [TEXT] [flags]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Queue a message and try to relay it",
		Long: `Queue a message durably and try once to relay it. Exit status 0 means that it is
queued; with --wait it means that the recipient's signed receipt has come.

Where the policy asks you first (ace help config), the message is held: it is
pending_approval, and nothing of it leaves before ace outbox approve. With the
same --request-id for the same message, a command answers with what became of it
the first time.

TEXT "-", or no TEXT with something on standard input, takes the text from
there, without the line break at its end.

A message of another type has members instead of TEXT: --set NAME=VALUE for each,
as in --set settlement.method=stripe-link. Types of official profiles have short
names, as rfq for ace:commerce:rfq:1. An rfq opens a thread; the other commerce
messages belong to one, and refer by themselves to the message they answer.`,
		Example: `  ace send @bob@relay.example "hello"
  ace send bob --type rfq --set need="a logo" --set maxPrice=100 --set currency=USDC
  ace send --connect @bob@relay.example "hello" --wait --timeout 60s
  uptime | ace send bob --request-id "$(date +%F)"`,
	}
	f := c.Flags()
	f.BoolVar(&o.connect, "connect", false, "ask for contact first where need be, and wait for the answer")
	f.StringVar(&o.wait, "wait", "", "wait until the message has this `STATE`: delivered, if none is given, or relayed")
	f.Lookup("wait").NoOptDefVal = core.StateDelivered
	f.BoolVar(&o.noAttempt, "no-attempt", false, "queue only")
	f.StringVar(&o.messageType, "type", profileText, "message `TYPE`")
	f.StringArrayVar(&o.set, "set", nil, "member of the message, as `NAME=VALUE`; once for each")
	f.StringArrayVar(&o.setFiles, "set-file", nil, "member whose value is the text of a file, as `NAME=FILE`")
	f.StringVar(&o.body, "body", "", "message body as `JSON`, in place of TEXT")
	f.StringVar(&o.bodyFile, "body-file", "", "`FILE` with the message body as JSON, - for standard input")
	f.StringVar(&o.thread, "thread", "", "`THREAD` the message belongs to")
	a.completeOption(c, "thread", threadValues)
	f.StringVar(&o.requestID, "request-id", "", "your `KEY` for this message: the same key never queues a second one")
	return a.leaf(c, 1, 2, []any{outgoingAnswer{}}, func(ctx context.Context, args []string) error {
		return runSend(ctx, a, args, o)
	})
}

func runSend(ctx context.Context, a *app, args []string, o sendOptions) error {
	if o.wait != "" && o.wait != core.StateRelayed && o.wait != core.StateDelivered {
		return usagef("--wait is relayed or delivered, not %q", o.wait)
	}
	if o.wait != "" && o.noAttempt {
		return usagef("--wait and --no-attempt exclude each other")
	}
	var err error
	if _, o.known, err = a.vocabulary(); err != nil {
		return err
	}
	if msg, ok := o.known.messageType(o.messageType); ok {
		o.messageType = msg.Type
	}
	if err := o.checkThread(); err != nil {
		return err
	}
	body, err := a.sendBody(args[1:], o)
	if err != nil {
		return err
	}
	return a.withPeer(ctx, a.open, (*session).other, args[0], func(ctx context.Context, s *session, peer string) error {
		out, err := a.enqueue(ctx, s, peer, body, o)
		if err != nil {
			return s.policyError(ctx, err)
		}
		if s.blocks(ctx, peer) {
			a.warn("you have blocked the peer, so that nothing goes out to it: ace contact unblock lifts that")
		}
		return a.attemptAndWait(ctx, s, out, o)
	})
}

// enqueue queues the message. One that the policy denies does not even ask for
// contact, and one that was queued with the same --request-id is completed as it
// was then.
func (a *app) enqueue(ctx context.Context, s *session, peer string, body wire.Value, o sendOptions) (core.Outgoing, error) {
	earlier, again, err := s.Requested(ctx, peer, o.requestID)
	if err != nil {
		return core.Outgoing{}, err
	}
	if again {
		body = o.repeats(earlier, body)
	} else if body, err = a.readyToSend(ctx, s, peer, body, o); err != nil {
		return core.Outgoing{}, err
	}
	return s.Enqueue(ctx, core.OutMessage{To: peer, Type: o.messageType, ThreadID: o.thread, Body: body, RequestID: o.requestID})
}

// readyToSend asks the policy, and for contact, and returns the body of the message.
func (a *app) readyToSend(ctx context.Context, s *session, peer string, body wire.Value, o sendOptions) (wire.Value, error) {
	if err := s.CheckPolicy(ctx); err != nil {
		return body, err
	}
	if err := s.MaySend(ctx, peer, o.messageType); err != nil {
		return body, err
	}
	if o.connect {
		if err := a.connectFirst(ctx, s, peer, o); err != nil {
			return body, err
		}
	}
	return s.refer(ctx, peer, body, o)
}

// connectFirst makes sure that the peer has given a permit.
func (a *app) connectFirst(ctx context.Context, s *session, peer string, o sendOptions) error {
	_, ok, err := s.permitted(ctx, peer)
	if ok || err != nil {
		return err
	}
	wanted := o.messageType
	if msg, ok := o.known.messageType(wanted); ok {
		wanted = msg.Profile
	}
	if _, err := a.askForContact(ctx, s, peer, wanted, ""); err != nil {
		return err
	}
	a.say("asked for contact; waiting for the answer")
	_, err = s.awaitPermit(ctx, peer)
	if errors.Is(err, errDeadline) {
		return hintf(err, "nothing was queued; the request waits at the peer, so run the same command again later")
	}
	return err
}

// attemptAndWait makes the first attempt, waits as --wait says, and prints what
// became of the message. A failed attempt is no failure of a command that only
// promised to queue.
func (a *app) attemptAndWait(ctx context.Context, s *session, out core.Outgoing, o sendOptions) error {
	if !o.noAttempt && out.State == core.StateQueued && out.Attempts == 0 {
		var err error
		if out, err = s.attempt(ctx, out, s.AttemptDue); err != nil {
			a.warn("not relayed yet: %s", clean(err.Error(), false))
		}
	}
	var waitErr error
	if o.wait != "" {
		out, waitErr = s.awaitOutgoing(ctx, out, o.wait)
	}
	if err := a.print(newOutgoingAnswer(out)); err != nil {
		return err
	}
	return waitErr
}

// attempt makes one attempt, when it is the message's turn. It returns the entry as
// it is afterwards even if the attempt failed.
func (s *session) attempt(ctx context.Context, out core.Outgoing, try func(context.Context, string) (core.Outgoing, error)) (core.Outgoing, error) {
	_, failed := try(ctx, out.MessageID)
	for until := time.Now().Add(turnPatience); errors.Is(failed, delivery.ErrNotItsTurn) && ctx.Err() == nil && time.Now().Before(until); {
		time.Sleep(turnInterval)
		_, failed = try(ctx, out.MessageID)
	}
	now, err := s.OutboxEntry(context.WithoutCancel(ctx), out.MessageID)
	if err != nil {
		return out, errors.Join(failed, err)
	}
	return now, failed
}

// turnPatience is how long a message waits for the attempt that another process
// makes of one before it, and turnInterval how often it looks. Most take no longer
// than one exchange with a relay; the attempts of a listener come later anyway.
const (
	turnPatience = 10 * time.Second
	turnInterval = 20 * time.Millisecond
)

// awaitOutgoing receives until the message has come as far as wanted, making
// the attempts that fall due meanwhile.
func (s *session) awaitOutgoing(ctx context.Context, out core.Outgoing, wanted string) (core.Outgoing, error) {
	if wanted == core.StateRelayed && out.State != core.StateQueued && out.State != core.StatePendingApproval {
		return out, outcome(out)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	retry := s.retryWhenDue(ctx, out.MessageID)
	defer func() { stop(nil); <-retry }()
	err := s.await(ctx, func(ctx context.Context) (bool, error) {
		now, err := s.ViewOutgoing(ctx, out.MessageID)
		if err != nil {
			return false, err
		}
		out = now
		return out.SettledAt != 0 || wanted == core.StateRelayed && out.State == core.StateRelayed, nil
	})
	switch {
	case err != nil && out.State == core.StatePendingApproval:
		return out, hintf(err, "the message waits for your approval: ace outbox approve %s", out.MessageID)
	case err != nil:
		return out, hintf(err, "the message is queued and its attempts go on: ace outbox show %s", out.MessageID)
	}
	return out, outcome(out)
}

// retryWhenDue attempts the message whenever an attempt falls due, until ctx
// ends. The channel closes when it has stopped.
func (s *session) retryWhenDue(ctx context.Context, messageID string) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			entry, err := s.OutboxEntry(ctx, messageID)
			if err != nil || entry.SettledAt != 0 {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(max(1, entry.NextAttemptAt-s.now())) * time.Second):
				s.AttemptDue(ctx, messageID) // its failure is in the entry
			}
		}
	}()
	return stopped
}

// outcome is the error of a message that did not arrive.
func outcome(out core.Outgoing) error {
	switch out.State {
	case core.StatePendingApproval, core.StateQueued, core.StateRelayed, core.StateDelivered:
		return nil
	case core.StateRejected:
		if out.Reason != "" {
			return hintf(fault.New(fault.NotPermitted, "the message never left: %s", out.Reason), "write it again to have it decided anew")
		}
		e := fault.New(fault.DeliveryRejected, "the peer rejected the message: %q", out.RemoteCode)
		e.Remote = out.RemoteCode
		return e
	}
	return fault.New(fault.Expired, "the message ended as %s", out.State)
}

// sendBody returns the body of the message from whichever place gives one.
func (a *app) sendBody(text []string, o sendOptions) (wire.Value, error) {
	given := 0
	sets := len(o.set)+len(o.setFiles) > 0
	for _, is := range []bool{len(text) > 0, o.body != "", o.bodyFile != "", sets} {
		if is {
			given++
		}
	}
	if given > 1 {
		return wire.Value{}, usagef("TEXT, --body, --body-file and --set exclude each other")
	}
	switch {
	case o.body != "":
		return parseBody("--body", []byte(o.body))
	case o.bodyFile != "":
		data, err := a.readArg(o.bodyFile, wire.MaxPlaintextBytes, fault.InvalidBody)
		if err != nil {
			return wire.Value{}, err
		}
		return parseBody("--body-file", data)
	case sets || len(text) == 0 && o.messageType != profileText:
		return a.memberBody(o)
	case o.messageType != profileText:
		return wire.Value{}, usagef("a message of type %s has no TEXT: give --set, --body or --body-file", o.messageType)
	case len(text) > 0 && text[0] != "-":
		return textBody(text[0])
	case len(text) == 0 && a.io.InTTY:
		return wire.Value{}, usagef("what is the message? Give TEXT, or - for standard input")
	}
	if a.flags.passphrase.fd == 0 {
		return wire.Value{}, usagef("standard input cannot hold both the passphrase and the text")
	}
	data, err := io.ReadAll(io.LimitReader(a.io.In, wire.MaxPlaintextBytes+1))
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.StorageFailed, err)
	}
	if len(data) > wire.MaxPlaintextBytes {
		return wire.Value{}, usagef("the text on standard input is larger than %d bytes", wire.MaxPlaintextBytes)
	}
	return textBody(strings.TrimSuffix(string(data), "\n"))
}

func parseBody(option string, data []byte) (wire.Value, error) {
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return v, usagef("%s: %v", option, err)
	}
	return v, nil
}

func textBody(text string) (wire.Value, error) {
	if text == "" {
		return wire.Value{}, usagef("the text is empty")
	}
	if strings.ToValidUTF8(text, "") != text {
		return wire.Value{}, usagef("the text is not valid UTF-8")
	}
	return profile.TextBody(text), nil
}
