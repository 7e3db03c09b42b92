package cli

// wait runs the commands that wait for what has come about: alice has a permit of
// bob's.
func (s *stage) wait(do func(...string) string, bob string) {
	s.t.Helper()
	do("wait", "relay", "--relay", "dev")
	do("--as", "alice", "wait", "registered")
	do("--as", "alice", "wait", "contact", bob)
	do("--as", "alice", "wait", "peer", bob)
}
