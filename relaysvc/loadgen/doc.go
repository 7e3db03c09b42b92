// Package loadgen puts load on a running relay over real HTTP and measures what
// its clients see.
//
// Start at [Open], which registers recipients of its own and prepares what is
// sent to them; [Load.Send] and [Load.Listen] are the two kinds of load, and
// [Load.Close] unregisters the recipients. [Run] is the loop below both: it
// drives any operation, so that other systems are measured the same way.
//
// The generator usually shares the processors with the relay. So a packet is
// made once and gets a new message ID for each send, a request is one write to
// a kept connection, and what the generator itself costs is part of every
// result. Nobody could open its packets: a relay does not try (07#send).
package loadgen
