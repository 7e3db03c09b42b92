package admission

import "github.com/ace-toolkit/ace/core/wire"

// HeldRequest is a contact request that waits for a decision (05#flow step 2).
type HeldRequest struct {
	From       string // ACE ID of the requester
	ReceivedAt int64  // Unix seconds
}

// Expired reports whether the request may no longer be listed or accepted at
// now: from exactly CONTACT_REQUEST_TTL_SECONDS after it was received.
func (r HeldRequest) Expired(now int64) bool {
	return now-r.ReceivedAt >= wire.ContactRequestTTLSeconds
}

// Hold returns which of the held requests, given oldest first, leave the store
// when a request of from, received at now, is put into it: expired ones, an
// earlier one of the same sender, which it replaces, and, when
// MAX_PENDING_CONTACT_REQUESTS others are held still, the oldest (05#flow
// step 2).
func Hold(held []HeldRequest, from string, now int64) (leaving []HeldRequest) {
	var staying []HeldRequest
	for _, r := range held {
		if r.From == from || r.Expired(now) {
			leaving = append(leaving, r)
			continue
		}
		staying = append(staying, r)
	}
	for len(staying) >= wire.MaxPendingContactRequests {
		leaving = append(leaving, staying[0])
		staying = staying[1:]
	}
	return leaving
}
