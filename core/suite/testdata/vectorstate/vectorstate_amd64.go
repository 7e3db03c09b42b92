// Package vectorstate tells whether the processor holds live data in the upper
// halves of its vector registers. Tests use it to see, without measuring time,
// whether AVX code returned without VZEROUPPER.
package vectorstate

// Readable reports whether this processor tells (XGETBV with ECX = 1).
func Readable() bool {
	return features()&xsaveEnabled != 0 && extended()&xgetbvInUse != 0
}

const (
	xsaveEnabled = 1 << 27 // CPUID.1:ECX.OSXSAVE
	xgetbvInUse  = 1 << 2  // CPUID.(0DH,1):EAX
	upperInUse   = 1 << 2  // XINUSE[AVX]
)

// UpperInUse reports whether an upper half is not in its initial state. Call
// it only when Readable, on a locked thread, right after the code in question.
func UpperInUse() bool { return inUse()&upperInUse != 0 }

// Soil puts data into the upper halves. Call it only on a processor with AVX2.
func Soil()

// Clear runs VZEROUPPER.
func Clear()

func features() uint32
func extended() uint32
func inUse() uint32
