//go:build race

package sim

// They are few, because SQLite is slow under the race detector, which
// finds little where one thing happens at a time.
const (
	shortSeeds    = 4
	replayedSeeds = 1
)
