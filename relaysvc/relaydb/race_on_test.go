//go:build race

package relaydb

// crowdSize is small, because SQLite is slow under the race detector.
const crowdSize = 2000
