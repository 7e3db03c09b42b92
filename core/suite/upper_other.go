//go:build !amd64

package suite

// clearUpper has nothing to clear: only amd64 has AVX.
func clearUpper() {}
