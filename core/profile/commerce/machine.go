package commerce

// State of a thread (commerce#parties-and-roles).
type State string

// The states.
const (
	Idle      State = "idle"
	Requested State = "requested"
	Offered   State = "offered"
	Rejected  State = "rejected"
	Accepted  State = "accepted"
	Invoiced  State = "invoiced"
	Paid      State = "paid"
	Delivered State = "delivered"
	Confirmed State = "confirmed"
)

// Final reports whether no message follows a state.
func (s State) Final() bool { return s == Rejected || s == Confirmed }

// Role of a party of a thread. The buyer sent the rfq (commerce#parties-and-roles).
type Role string

// The roles.
const (
	Buyer  Role = "buyer"
	Seller Role = "seller"
)

// Move is a message that a state takes: its type, who sends it, and the state
// that it leads to.
type Move struct {
	Type string
	By   Role
	To   State
}

// moves is the table of commerce#parties-and-roles. Every pair that is not in it
// is rejected.
var moves = [...]struct {
	from State
	Move
}{
	{Idle, Move{RFQ, Buyer, Requested}},
	{Requested, Move{Offer, Seller, Offered}},
	{Requested, Move{Reject, Seller, Rejected}},
	{Offered, Move{Offer, Seller, Offered}}, // a counter-offer supersedes
	{Offered, Move{Accept, Buyer, Accepted}},
	{Offered, Move{Reject, Buyer, Rejected}},
	{Accepted, Move{Invoice, Seller, Invoiced}},
	{Accepted, Move{Payment, Buyer, Paid}},       // pre-paid
	{Accepted, Move{Deliver, Seller, Delivered}}, // deliver-first
	{Invoiced, Move{Payment, Buyer, Paid}},
	{Paid, Move{Deliver, Seller, Delivered}},
	{Delivered, Move{Confirm, Buyer, Confirmed}},
}

// Next returns the messages that a state takes, none for a final one.
func Next(s State) (next []Move) {
	for _, m := range moves {
		if m.from == s {
			next = append(next, m.Move)
		}
	}
	return next
}

// move returns what a message of the given type does in a state.
func move(s State, messageType string) (Move, bool) {
	for _, m := range moves {
		if m.from == s && m.Type == messageType {
			return m.Move, true
		}
	}
	return Move{}, false
}
