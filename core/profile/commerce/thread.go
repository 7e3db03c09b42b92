package commerce

import "github.com/ace-toolkit/ace/core/profile"

// StateOf returns the state of a thread: idle without history.
func StateOf(t profile.Thread) State {
	if t.Length == 0 {
		return Idle
	}
	return State(t.State)
}

// RoleOf returns the role of one of the two parties of a thread. In a thread
// without history it is the buyer, because only an rfq can begin one.
func RoleOf(t profile.Thread, aceID string) Role {
	if t.Length == 0 || t.Opener == aceID {
		return Buyer
	}
	return Seller
}

// entryOf is the history entry of a message.
func entryOf(e profile.Event) profile.ThreadEntry {
	return profile.ThreadEntry{Type: e.Type, MessageID: e.MessageID, Timestamp: e.Timestamp, From: e.From}
}
