package kel

// forkPoint returns the first seq at which two logs differ, or the length of
// the shorter one when it is a prefix. Signatures take no part: an event is
// its canonical bytes, and signing them again changes nothing.
func forkPoint(a, b []Event) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i].Hash != b[i].Hash {
			return i
		}
	}
	return n
}

// supersedes is 01#verifier-rules rule 6 for two logs that differ at the given
// seq: a rot replaces pinned events of which none is a rot. It can only come
// from the holder of the committed next root, whose commitment the replay of
// the candidate has checked.
func supersedes(candidate, pinned []Event, at int) bool {
	if candidate[at].Type != Rotation {
		return false
	}
	for _, e := range pinned[at:] {
		if e.Type == Rotation {
			return false
		}
	}
	return true
}
