package sim

import (
	"fmt"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// trade is the commerce profile as its chapter states it, written a second time:
// what the rule of the profile answers is compared with it
// (commerce#parties-and-roles).
var trade = map[[2]string]struct {
	buyer bool
	to    string
}{
	{"idle", "rfq"}:          {true, "requested"},
	{"requested", "offer"}:   {false, "offered"},
	{"requested", "reject"}:  {false, "rejected"},
	{"offered", "offer"}:     {false, "offered"},
	{"offered", "accept"}:    {true, "accepted"},
	{"offered", "reject"}:    {true, "rejected"},
	{"accepted", "invoice"}:  {false, "invoiced"},
	{"accepted", "payment"}:  {true, "paid"},
	{"accepted", "deliver"}:  {false, "delivered"},
	{"invoiced", "payment"}:  {true, "paid"},
	{"paid", "deliver"}:      {false, "delivered"},
	{"delivered", "confirm"}: {true, "confirmed"},
}

var tradeTypes = []string{"rfq", "offer", "accept", "reject", "invoice", "payment", "deliver", "confirm"}

func tradeType(short string) string { return "ace:commerce:" + short + ":1" }

// shortType is "" for a type of another profile.
func shortType(of string) string {
	for _, short := range tradeTypes {
		if tradeType(short) == of {
			return short
		}
	}
	return ""
}

// bargain is a thread as a store keeps it.
type bargain struct {
	state   string
	opener  string              // ACE ID
	entries []store.ThreadEntry // oldest first
}

// reference returns the member by which a type refers to an earlier message, and
// what it has to say (commerce#references).
func (b bargain) reference(short string) (member, id string) {
	nth := func(back int) string {
		if len(b.entries) < back {
			return ""
		}
		return b.entries[len(b.entries)-back].MessageID
	}
	switch short {
	case "accept":
		return "offerId", nth(1)
	case "invoice":
		return "offerId", nth(2)
	case "payment":
		return "referenceId", nth(1)
	case "confirm":
		return "deliverId", nth(1)
	}
	return "", ""
}

// judge returns the code that a message is refused with, "" for none
// (commerce#check-order).
func (b bargain) judge(short, from, reference string) string {
	state := b.state
	if state == "" {
		state = "idle"
	}
	move, ok := trade[[2]string{state, short}]
	if !ok {
		return "transition_not_allowed"
	}
	if opener := b.opener; opener != "" && move.buyer != (from == opener) {
		return "wrong_role"
	}
	if member, id := b.reference(short); member != "" && id != reference {
		return "bad_reference"
	}
	return ""
}

// threadKey names a thread of a store.
type threadKey struct{ peer, id string }

func (w *world) someThread() string { return fmt.Sprintf("trade %d", w.rand.IntN(3)) }

// trade sends a message of the commerce profile: mostly one that may follow.
func (h *host) trade(peer *host) { h.tradeIn(peer, h.w.someThread()) }

func (h *host) tradeIn(peer *host, thread string) {
	w := h.w
	key := threadKey{peer.id.ACEID(), thread}
	v := h.load() // another process may be at work
	b := v.threads[key]
	short := tradeTypes[w.rand.IntN(len(tradeTypes))]
	if w.chance(0.9) {
		short = h.turn(b, short)
	}
	member, reference := b.reference(short)
	if member != "" && (reference == "" || w.chance(0.1)) {
		reference = "11111111-1111-4111-8111-111111111111"
	}
	want := b.judge(short, h.id.ACEID(), reference)
	if v.busy(key, h.clock()) {
		want = string(fault.ThreadBusy)
	}
	body := tradeBody(short, member, reference)
	err := h.enqueue(core.OutMessage{To: key.peer, ThreadID: key.id, Type: tradeType(short), Body: body})
	code := string(fault.CodeOf(err))
	w.note("   %s %s in %q: %s", short, h.name, key.id, code)
	switch {
	case code == want:
		w.count("trade: " + code)
	case err == nil:
		w.violate("a rule checks what is sent", "commerce#check-order", "%s sends %s in %q, which is %s, and it is not refused with %s", h.name, short, key.id, b.state, want)
	case want != "" && v.held[key.peer].Raw != nil && code != string(fault.NotPermitted), want == "":
		h.expect("enqueue", err, ofSend...)
	}
}

// turn chooses a message that this host may send in a thread, if there is one.
func (h *host) turn(b bargain, otherwise string) string {
	state := b.state
	if state == "" {
		state = "idle"
	}
	var may []string
	for _, short := range tradeTypes {
		move, ok := trade[[2]string{state, short}]
		if ok && (b.opener == "" || move.buyer == (b.opener == h.id.ACEID())) {
			may = append(may, short)
		}
	}
	if len(may) == 0 {
		return otherwise
	}
	return may[h.w.rand.IntN(len(may))]
}

func tradeBody(short, member, reference string) wire.Value {
	var members []wire.Member
	add := func(name string, v wire.Value) { members = append(members, wire.Member{Key: name, Value: v}) }
	text := wire.NewString
	switch short {
	case "rfq":
		add("need", text("a haiku"))
	case "offer":
		add("price", text("5"))
		add("currency", text("USD"))
	case "deliver":
		add("type", text("inline"))
		add("content", text("old pond"))
	case "invoice", "payment":
		add("amount", text("5"))
		add("currency", text("USD"))
		add("settlement", settlement(short))
	}
	if member != "" {
		add(member, text(reference))
	}
	return wire.NewObject(members...)
}

func settlement(short string) wire.Value {
	method := wire.Member{Key: "method", Value: wire.NewString("stripe-link")}
	if short == "invoice" {
		return wire.NewObject(method, wire.Member{Key: "url", Value: wire.NewString("https://pay.example/1")})
	}
	id := wire.Member{Key: "paymentId", Value: wire.NewString("1")}
	return wire.NewObject(method, wire.Member{Key: "proof", Value: wire.NewObject(id)})
}

// vouch hands a credential to a peer.
func (h *host) vouch(peer *host) {
	c, err := h.endpoint.IssueCredential(peer.id.ACEID(), int64(h.w.some(60, day, 7*day)))
	if err != nil {
		h.expect("vouch", err)
		return
	}
	body := wire.NewObject(wire.Member{Key: "credential", Value: c.Value()})
	m := core.OutMessage{To: peer.id.ACEID(), Type: profile.DelegationID, Body: body}
	h.expect("enqueue", h.enqueue(m), ofSend...)
}

// busy reports whether a governed message of a thread is pending
// (08#sender-state-and-busy-threads).
func (v *view) busy(key threadKey, now int64) bool {
	for _, e := range v.outbox {
		over := e.Attempts > 0 && now >= e.FirstAttemptAt+wire.OfflineWindowSeconds
		if e.State == store.Pending && !over && e.Peer == key.peer && e.ThreadID == key.id && e.Type != profile.TextType {
			return true
		}
	}
	return false
}
