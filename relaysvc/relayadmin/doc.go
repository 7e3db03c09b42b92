// Package relayadmin lets the operator of a running relay look at it and change
// it: HTTP over a Unix socket in a folder that only its owner can enter, the
// answers JSON. [Serve] is the relay's end, [Client] that of the commands.
//
// Each action that changes something is written to an append-only audit log
// before it is taken, and its outcome after.
package relayadmin
