// Package descriptor builds and verifies the two signed documents by which an
// agent is found: the short-lived PublishedAgent {kel, descriptor} and the
// CardBundle {kel, card} with its durable facts (04#04--descriptor,
// 04#card-record). It also holds the rules for keeping them: which cached
// descriptor may be used, which candidate replaces it, and how a handle
// resolves.
//
// Start at [Verify] and [VerifyCard]; [Build] and [BuildCard] make what they
// accept. Nothing here fetches or stores anything.
package descriptor
