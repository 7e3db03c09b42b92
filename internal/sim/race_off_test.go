//go:build !race

package sim

const shortSeeds = 25
