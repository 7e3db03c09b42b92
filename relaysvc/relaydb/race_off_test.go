//go:build !race

package relaydb

// crowdSize is the number of identities in a full directory.
const crowdSize = 20_000
