package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

const waitLong = `Wait until something has come about, print it and end with status 0. It may have
come about before. --timeout says how long (30s, 0 for ever); at its end the status
is 22. What will not come about any more ends it at once: 14 for a rejection, 15
for what has expired.

receipt, message and contact receive meanwhile as ace listen does, without its
upkeep, while no other process does. Where one does, they take nothing from it and
watch the store that it fills. One that receives keeps ace pull and another ace
listen from it. relay, registered and peer only ask relays.`

func newWaitCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "wait", Short: "Wait for a message, a receipt, a contact or a relay", Long: waitLong},
		newWaitRelayCmd(a), newWaitRegisteredCmd(a), newWaitReceiptCmd(a), newWaitMessageCmd(a), newWaitContactCmd(a), newWaitPeerCmd(a))
}

func newWaitRegisteredCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "registered",
		Short: "Wait until the relay knows the identity",
		Long: `Wait until the home relay knows the identity with the keys that it has now. It is
not registered by this: ace publish and ace listen do that.`,
	}
	return a.leaf(c, 0, 0, []any{waitRegisteredAnswer{}}, func(ctx context.Context, _ []string) error { return runWaitRegistered(ctx, a) })
}

func newWaitReceiptCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "receipt MESSAGE_ID",
		Short: "Wait for the receipt of a message you have queued",
		Long: `Wait for the signed receipt of a message you have queued, making the attempts that
fall due meanwhile. The start of its ID is enough, at least 8 characters. A message
that the peer rejects ends it with 14, one that expires or is abandoned with 15.`,
		Example:           "  ace wait receipt $(ace send bob hello --jq .message_id) --timeout 60s",
		ValidArgsFunction: a.complete(1, sentValues),
	}
	return a.leaf(c, 1, 1, []any{outgoingAnswer{}}, func(ctx context.Context, args []string) error {
		return runWaitReceipt(ctx, a, args[0])
	})
}

func newWaitContactCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "contact PEER",
		Short: "Wait until you may write to a peer",
		Long: `Wait until you may write to a peer: until a permit of it is held. Nobody is asked
for contact by this: ace connect does that. A peer that declines ends it with 14, a
request that ends without an answer with 15.`,
		ValidArgsFunction: a.complete(1, peerValues),
	}
	return a.leaf(c, 1, 1, []any{contactAnswer{}}, func(ctx context.Context, args []string) error {
		return runWaitContact(ctx, a, args[0])
	})
}

func newWaitPeerCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "peer PEER",
		Short: "Wait until a peer is published",
		Long: `Wait until a peer can be looked up: until its relay serves a descriptor of it that
is valid. It is pinned as by ace lookup.`,
		ValidArgsFunction: a.complete(1, peerValues),
	}
	return a.leaf(c, 1, 1, []any{peerAnswer{}}, func(ctx context.Context, args []string) error { return runWaitPeer(ctx, a, args[0]) })
}

// waitRegisteredAnswer says where the identity is registered.
type waitRegisteredAnswer struct {
	ACEID string `json:"ace_id"`
	Relay string `json:"relay"`
}

func (r waitRegisteredAnswer) text(p *page) {
	p.line("%s is registered at %s", p.id(r.ACEID), r.Relay)
}

func runWaitRegistered(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	if err := keepAsking(ctx, s.Registered); err != nil {
		return whenDeadline(err, "ace --as %s publish registers it", s.id.name)
	}
	return a.print(waitRegisteredAnswer{s.ACEID(), s.relay})
}

// whenDeadline is withHint for the deadline alone.
func whenDeadline(err error, format string, args ...any) error {
	if !errors.Is(err, errDeadline) {
		return err
	}
	return withHint(err, format, args...)
}

func runWaitReceipt(ctx context.Context, a *app, typed string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	out, err := s.outgoing(ctx, typed)
	if err != nil {
		return withHint(err, "ace outbox list shows the messages")
	}
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	err = outcome(out)
	if out.SettledAt == 0 {
		out, err = s.awaitOutgoing(ctx, out, core.StateDelivered)
	}
	if printed := a.print(newOutgoingAnswer(out)); printed != nil {
		return printed
	}
	return err
}

func runWaitContact(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.open, (*session).other, typed, func(ctx context.Context, s *session, peer string) error {
		var last core.Contact
		err := s.await(ctx, func(ctx context.Context) (bool, error) {
			now, may, err := s.permitted(ctx, peer)
			if err != nil {
				return false, err
			}
			before := last
			last = now
			return may, s.mayCome(before, now)
		})
		if err != nil {
			return whenDeadline(err, "ace why %s says what is missing", typed)
		}
		return a.print(newContactAnswer(last))
	})
}

// mayCome tells why a contact will not come about any more. A refusal takes the
// peer out of the admission table, and so does the end of a request's time.
func (s *session) mayCome(before, now core.Contact) error {
	switch {
	case now.State == stateBlocked:
		return hintf(fault.New(fault.NotPermitted, "you have blocked the peer"), "ace contact unblock lifts that")
	case before.State != string(admission.Pending) || now.State != "":
		return nil
	case before.ExpiresAt != 0 && before.ExpiresAt <= s.now():
		return hintf(fault.New(fault.Expired, "the contact request has ended without an answer"), "ace connect asks again")
	}
	return fault.New(fault.DeliveryRejected, "the peer declined the contact request")
}

func runWaitPeer(ctx context.Context, a *app, typed string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	var found *core.Peer
	err = keepAsking(ctx, func(ctx context.Context) (bool, error) {
		id, err := s.peer(ctx, typed)
		if err == nil {
			found, err = s.Lookup(ctx, id)
		} else if !isAddress(typed) {
			return false, err // a name of one's own that nobody has
		}
		if errors.Is(err, fault.UnknownPeer) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return whenDeadline(err, "the peer is not published where it was looked for")
	}
	return a.print(newPeerAnswer(found))
}

// isAddress reports whether what was typed names somebody also where nothing is
// known of them.
func isAddress(typed string) bool { return wire.IsACEID(typed) || strings.Contains(typed, "@") }
