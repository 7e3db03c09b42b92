package suite

import "golang.org/x/sys/cpu"

// clearUpper puts the upper halves of the vector registers back into their
// initial state. It asks the flag that circl asks before it runs AVX2 code, so
// a processor without AVX never meets the instruction.
func clearUpper() {
	if cpu.X86.HasAVX2 {
		vzeroupper()
	}
}

//go:noescape
func vzeroupper()
