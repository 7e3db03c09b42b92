package profile

import (
	"maps"
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Direction of a message, as a rule sees it (08#profile-rules).
type Direction string

// The two directions.
const (
	Send    Direction = "send"
	Receive Direction = "receive"
)

// Event is a message as a rule sees it (08#profile-rules).
type Event struct {
	Direction Direction
	From, To  string // ACE IDs
	MessageID string
	Timestamp int64 // of the packet; on send, when the Outbox entry was created
	Type      string
	ThreadID  string // "" for none
}

// Rule is what a schema cannot express about message types: references between
// messages, state machines, embedded signed objects (08#profile-rules). It keeps
// no state of its own and reaches that of the endpoint through State alone. The
// body it is given matches the schema of its type.
type Rule interface {
	// Types lists the message types that the rule governs.
	Types() []string
	// Check judges a message before it is stored for sending or taken in. It
	// changes nothing. A code of its error that is not retryable becomes the code
	// of the rejected receipt; another one says that no verdict was reached.
	Check(s State, e Event, body wire.Value) error
	// Commit applies the message to the state, idempotently per sender and
	// message ID. It runs when the message is taken in, and for a sent one when
	// its delivered receipt comes. An error says that the state failed.
	Commit(s State, e Event, body wire.Value) error
}

// State is what a rule may look at and change, for one message, inside the
// transaction that decides about it.
type State struct {
	Local   string // ACE ID of the endpoint
	Now     int64  // Unix seconds
	Threads Threads
	// VerifySender checks an operational signature of the message's sender under
	// its pinned log (01#operational-signatures). It is nil on send.
	VerifySender func(action string, s wire.Signature, t int64, payload []byte) error
}

// Threads is the state that the rules of one profile keep of threads, each by
// (peer, thread ID). Errors are those of the store.
type Threads interface {
	// Thread returns a thread, with Length 0 when it has no history.
	Thread(peer, threadID string) (Thread, error)
	// CountOpen returns how many threads with peer are in no final state.
	CountOpen(peer string) (int, error)
	// Append makes an entry the head of a thread, which has the given state from
	// then on. It changes nothing when the history of a thread has the message of
	// that sender already.
	Append(peer, threadID string, e ThreadEntry, state string, final bool) error
}

// Thread is what a rule knows of a thread.
type Thread struct {
	State  string // "" without history
	Length int    // entries of its history
	Opener string // ACE ID that sent the first
	Head   ThreadEntry
	Before ThreadEntry // the entry before the head
}

// ThreadEntry is one accepted message of a thread.
type ThreadEntry struct {
	Type      string
	MessageID string
	Timestamp int64
	From      string
}

// Govern installs a rule. Its types are installed, none is of the core profile,
// whose rules are part of the pipeline, and no other rule governs one of them.
// Code: invalid_argument.
func (s *Set) Govern(r Rule) error {
	for _, name := range r.Types() {
		msg, ok := s.types[name]
		switch {
		case !ok:
			return fault.New(fault.InvalidArgument, "rule for %q: the type is not installed", name)
		case msg.Profile == CoreID:
			return fault.New(fault.InvalidArgument, "rule for %q: the type is of the core profile", name)
		case s.rules[name] != nil:
			return fault.New(fault.InvalidArgument, "rule for %q: another rule governs the type", name)
		}
	}
	for _, name := range r.Types() {
		s.rules[name] = r
	}
	return nil
}

// Governed returns the message types that a rule governs, sorted.
func (s *Set) Governed() []string { return slices.Sorted(maps.Keys(s.rules)) }

// Rule returns the rule that governs a message type
// (08#sender-state-and-busy-threads).
func (s *Set) Rule(messageType string) (Rule, bool) {
	r, ok := s.rules[messageType]
	return r, ok
}
