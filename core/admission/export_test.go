package admission

import (
	"crypto/sha256"

	"github.com/ace-toolkit/ace/core/kel"
)

// Holds reports whether the permit is remembered under the log of state,
// without making it the one used last.
func (c *PermitCache) Holds(raw []byte, state *kel.State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[permitKey{permit: sha256.Sum256(raw), log: state.LastHash()}]
	return ok
}

// Len returns the number of permits remembered.
func (c *PermitCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) != c.recent.Len() {
		panic("the index and the list differ")
	}
	return len(c.byKey)
}
