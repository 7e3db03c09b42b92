package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// appendEvent makes an identity of the stage sign one more event and publish it.
func (s *stage) appendEvent(name string) {
	s.t.Helper()
	s.must("--as", name, "identity", "delegate")
}

// A backup that lacks an event its relay knows of is not restored; offline it is,
// and then signs nothing and does nothing at its relay
// (01#rotation-and-recovery).
func TestRestoreBehindTheRelay(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--name", "alice", "--relay", "dev")
	pass, file := s.write("pass", "tuba yacht\n"), filepath.Join(s.dir, "alice.backup")
	s.must("--as", "alice", "identity", "backup", "create", "-o", file, "--backup-passphrase-file", pass)
	s.appendEvent("alice")

	next := filepath.Join(s.dir, ".config", "ace-recovery", "alice.next-root")
	second := []string{"--home", filepath.Join(s.dir, "second")}
	restore := append(second, "identity", "backup", "restore", file, "--backup-passphrase-file", pass)
	r := s.try(restore...)
	if r.status != exitNotAuthentic || !strings.Contains(r.err, "kel_conflict") || !strings.Contains(r.err, "hint: another installation") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "second", "identities", "alice")); err == nil {
		t.Error("it was restored all the same")
	}
	s.must(append(restore, "--offline")...)
	for range 2 {
		if r := s.try(append(second, "publish")...); r.status != exitNotAuthentic || !strings.Contains(r.err, "hint: another installation") {
			t.Errorf("publish: status %d: %s", r.status, r.err)
		}
	}
	for _, args := range [][]string{{"delegate"}, {"delegate", "--no-publish"}, {"rotate", "--yes", "--no-publish", "--next-root", next}} {
		if r := s.try(append(append(second, "identity"), args...)...); r.status != exitNotAuthentic && r.status != exitNoIdentity {
			t.Errorf("%v: status %d: %s", args, r.status, r.err)
		}
	}
	// The holder of the next root takes the identity back all the same.
	s.must(append(second, "identity", "recover", "--yes", "--next-root", next)...)
	if got := s.must(append(second, "status", "--jq", ".registered")...); got != "true" {
		t.Errorf("registered: %s", got)
	}
}

// A relay that serves nothing of an identity any more still refuses a log that
// lacks what it knew (07#registration).
func TestRestoreBehindTheHorizon(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--name", "alice", "--relay", "dev")
	pass, file := s.write("pass", "tuba yacht\n"), filepath.Join(s.dir, "alice.backup")
	s.must("--as", "alice", "identity", "backup", "create", "-o", file, "--backup-passphrase-file", pass)
	s.appendEvent("alice")
	s.must("--as", "alice", "unpublish", "--yes")

	second := []string{"--home", filepath.Join(s.dir, "second")}
	if got := s.must(append(second, "identity", "backup", "restore", file, "--backup-passphrase-file", pass, "--jq", ".relay_check")...); got != "unknown" {
		t.Errorf("relay_check %q", got)
	}
	r := s.try(append(second, "publish")...)
	if r.status != exitPermanent || !strings.Contains(r.err, "hint: another installation") {
		t.Errorf("publish: status %d: %s", r.status, r.err)
	}
}

// After a destruction without later events a backup brings the identity back,
// under another name: the tombstone keeps its own.
func TestRestoreAfterDestroy(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--name", "alice", "--relay", "dev")
	pass, file := s.write("pass", "tuba yacht\n"), filepath.Join(s.dir, "alice.backup")
	s.must("--as", "alice", "identity", "backup", "create", "-o", file, "--backup-passphrase-file", pass)
	s.must("identity", "destroy", "alice", "--yes", "--confirm", "alice")
	restore := []string{"identity", "backup", "restore", file, "--backup-passphrase-file", pass}
	if r := s.try(restore...); r.status != exitUsage {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	s.must(append(restore, "--name", "again")...)
	s.must("--as", "again", "publish")
	s.appendEvent("again") // it may sign again
	if got := s.must("--as", "again", "identity", "show", "--jq", ".kel_seq"); got != "2" {
		t.Errorf("kel_seq %s", got)
	}
}
