package cli

import "path/filepath"

// keep runs the commands that keep an identity and end it. alice is one of two
// that are published at the relay of the stage, and is still there afterwards.
func (s *stage) keep(do func(...string) string, alice string) {
	s.t.Helper()
	pass := s.write("pass", "correct horse\n")
	do("identity", "new", "spare", "--yes", "--relay", "dev")
	do("identity", "use", "alice")
	do("identity", "rename", "spare", "rest")
	do("identity", "export", "--public")
	do("identity", "export", "--public", "--descriptor", "-o", filepath.Join(s.dir, "alice.json"))
	do("identity", "safety")
	do("--as", "bob", "identity", "safety", alice)
	do("identity", "passphrase", "rest", "--new-passphrase-file", pass)
	backup := filepath.Join(s.dir, "alice.backup")
	do("identity", "backup", "create", "-o", backup, "--include", "store", "--backup-passphrase-file", pass)
	do("identity", "backup", "verify", backup, "--backup-passphrase-file", pass)
	do("--home", filepath.Join(s.dir, "second"), "identity", "backup", "restore", backup, "--backup-passphrase-file", pass)
	do("--as", "rest", "unpublish", "--dry-run")
	do("--as", "rest", "unpublish", "--yes", "--passphrase-file", pass)
	do("identity", "destroy", "rest", "--dry-run")
	do("identity", "destroy", "rest", "--yes", "--confirm", "rest")
}
