// Package kel is the key event log of an ACE identity: what a log says, who may
// sign for it and how one log relates to another (01#key-event-log).
//
// [Verify] turns a log received from anywhere into a [State], and [Cache.Verify]
// does so once per log. A State is the only form in which the rest of the
// program meets a log: it is verified, immutable, and answers the questions of
// 01#operational-signatures ([State.VerifySignature]) and 01#pinning
// ([Reconcile]).
//
// The owner's side is [Identity], which signs with the delegated key, and the
// builders [Incept], [State.Delegate], [State.Rotate] and [State.Recover],
// which need the root key. Builders sign and return; keeping the new log
// durably before it is published, and never signing twice for one seq from two
// copies of a log, are the caller's (01#rotation-and-recovery).
//
// The package does no I/O and reads no clock. Every error is a *fault.Error.
package kel
