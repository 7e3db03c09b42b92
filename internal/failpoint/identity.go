package failpoint

// The places of the end of an identity, in order.
const (
	Buried    = "buried"     // the identity counts as destroyed, all is still there
	EraseFile = "erase-file" // after each file that was erased
)
