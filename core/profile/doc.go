// Package profile gives private content its meaning: profile manifests with
// the bounded schema dialect, their digests, the set of profiles installed at
// an endpoint, the form of the rules that go beyond a schema, and the shapes that
// official profiles give to a descriptor's ext (08#08--profiles, 04#extensions).
//
// It never fetches or runs anything: a manifest is data that somebody at this
// endpoint chose to install. Start at [ParseManifest], [Set] and [Rule].
package profile

// IDs of the official profiles (08#official-manifests).
const (
	CoreID       = "ace:core:1"
	TextID       = "ace:text:1"
	DelegationID = "ace:delegation:1"
	CommerceID   = "ace:commerce:1"
)

// Message types of the core and text profiles (08#official-manifests).
const (
	ReceiptType = "ace:receipt:1"
	ContactType = "ace:contact:1"
	TextType    = "ace:text:1"
)

// reservedPrefix begins the identifiers that third parties must not use
// (02#identifiers).
const reservedPrefix = "ace:"
