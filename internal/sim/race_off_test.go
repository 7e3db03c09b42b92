//go:build !race

package sim

const (
	shortSeeds    = 25
	replayedSeeds = 6
)
