// Package failpoint names the places at which a test lets the program die. In
// the program that is shipped its functions are empty and cost nothing; built
// with the tag failpoint, the environment decides:
//
//	ACE_FAILPOINT=committed:3   SIGKILL at the third pass of that place
//	ACE_FAILPOINT=sync-error:3  the third fsync of the store fails
//	ACE_FAILPOINT_CLOCK=86400   the clock is that many seconds ahead
//	ACE_FAILPOINT_SWEEP=20ms    the time between two sweeps
//	ACE_FAILPOINT_SEGMENT=65536 the length of the packet log's segments, in bytes
//	ACE_FAILPOINT_SECOND=1ms    a second that a listener waits before it connects again
//	ACE_FAILPOINT_SILENCE=2s    how long a relay may be silent
package failpoint

// The places of the relay, in the order in which a decision passes them.
const (
	Open       = "open"       // before the store is opened
	Begin      = "begin"      // before the transaction of a group
	Decide     = "decide"     // before each decision of a group
	Decided    = "decided"    // after the last decision, before the commit
	Written    = "written"    // after a group was written to the packet log, before its commit
	Committed  = "committed"  // after the commit, before the first answer
	Synced     = "synced"     // after the packet log was synced, before the first answer
	Answered   = "answered"   // after each answer
	Register   = "register"   // in the middle of a registration
	Unregister = "unregister" // in the middle of an unregistration
	Enqueue    = "enqueue"    // in the middle of queueing a packet
	Remove     = "remove"     // in the middle of deleting entries: acknowledged, expired
	Sweep      = "sweep"      // between two transactions of a sweep
	Erased     = "erased"     // after deleted packets were overwritten, before that is noted
	Move       = "move"       // in the middle of moving a packet out of the packet log
	Checkpoint = "checkpoint" // before the log is moved into the database
	Moved      = "moved"      // after that
)

// The places of a change of an identity's log and keys, in order.
const (
	NextRootNoted = "next-root-noted" // before a new next root is written
	NextRootKept  = "next-root-kept"  // after that
	EventsSigned  = "events-signed"   // after the new log was signed, in memory
	ChangeWrite   = "change-write"    // before each file of the change
	ChangeWritten = "change-written"  // after the last one
	ChangeHolds   = "change-holds"    // from here on the change is made
	ChangeMove    = "change-move"     // before each file goes to its place
	ChangeMoved   = "change-moved"    // after the last one
	ChangeErase   = "change-erase"    // before each old key is overwritten
	ChangeMade    = "change-made"     // before anything is published
)

// IdentityPlaces returns the places of a change of an identity, in order.
func IdentityPlaces() []string {
	return []string{
		NextRootNoted, NextRootKept, EventsSigned, ChangeWrite, ChangeWritten,
		ChangeHolds, ChangeMove, ChangeMoved, ChangeErase, ChangeMade,
	}
}

// These are no places: the n-th pass is the n-th fsync, which fails.
const (
	SyncError       = "sync-error"        // of any file of the store
	PacketSyncError = "packet-sync-error" // of a file of the packet log
)

// The places of an endpoint: between every two of them it changes nothing that
// outlasts it.
const (
	Save      = "save"      // before a transaction of the store commits
	Saved     = "saved"     // after it has
	Request   = "request"   // before a request to a relay
	Requested = "requested" // after the relay has begun to answer
)

// EndpointPlaces returns the places of an endpoint.
func EndpointPlaces() []string { return []string{Save, Saved, Request, Requested} }

// Places returns the places of the relay, in order.
func Places() []string {
	return []string{
		Open, Begin, Decide, Decided, Written, Committed, Synced, Answered,
		Register, Unregister, Enqueue, Remove, Sweep, Erased, Move, Checkpoint, Moved,
	}
}
