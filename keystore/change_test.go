package keystore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/keystore"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// names returns what is in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// opens reports whether root and agent keys open under a passphrase.
func opens(t *testing.T, s *keystore.Store, pass []byte) (root, agent bool) {
	t.Helper()
	if key, err := s.Root(pass, now); err == nil {
		key.Destroy()
		root = true
	}
	if u, err := s.Unlock(pass, now); err == nil {
		u.Destroy()
		agent = true
	}
	return root, agent
}

func TestChangePassphrase(t *testing.T) {
	o := options(t)
	s := create(t, o)
	log := read(t, filepath.Join(o.Dir, "kel.json"))
	next := read(t, o.NextRootPath)
	one, two := []byte("correct horse"), []byte("battery staple")
	for _, step := range []struct {
		name       string
		old, fresh []byte
	}{{"set", nil, one}, {"change", one, two}, {"remove", two, nil}} {
		if err := s.ChangePassphrase(step.old, step.fresh, "test", now); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if root, agent := opens(t, s, step.fresh); !root || !agent {
			t.Errorf("%s: root %v, agent %v", step.name, root, agent)
		}
		if step.fresh != nil {
			if root, agent := opens(t, s, step.old); root || agent {
				t.Errorf("%s: the old passphrase still opens: root %v, agent %v", step.name, root, agent)
			}
		}
		if left := names(t, o.Dir); !slices.Equal(left, []string{"agent.key", "identity.lock", "kel.json", "root.key"}) {
			t.Errorf("%s: left behind %v", step.name, left)
		}
	}
	if !bytes.Equal(log, read(t, filepath.Join(o.Dir, "kel.json"))) || !bytes.Equal(next, read(t, o.NextRootPath)) {
		t.Error("the log or the next root changed")
	}
}

func TestChangePassphraseRefusesAndChangesNothing(t *testing.T) {
	o := options(t)
	o.Passphrase = []byte("correct horse")
	s := create(t, o)
	before := read(t, filepath.Join(o.Dir, "agent.key"))
	for name, c := range map[string]struct {
		old, fresh []byte
		code       fault.Code
	}{
		"wrong": {[]byte("battery staple"), []byte("x"), fault.IdentityUnavailable},
		"none":  {nil, []byte("x"), fault.IdentityUnavailable},
		"empty": {o.Passphrase, []byte{}, fault.InvalidArgument},
	} {
		if err := s.ChangePassphrase(c.old, c.fresh, "test", now); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lock, err := s.Lock("ace identity rotate", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ChangePassphrase(o.Passphrase, nil, "test", now); !errors.Is(err, fault.LockBusy) {
		t.Errorf("beside another verb: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, read(t, filepath.Join(o.Dir, "agent.key"))) {
		t.Error("agent.key changed")
	}
	if left := names(t, o.Dir); !slices.Equal(left, []string{"agent.key", "identity.lock", "kel.json", "root.key"}) {
		t.Errorf("left behind %v", left)
	}
}

func TestChangeNextRootPassphrase(t *testing.T) {
	o := options(t)
	s := create(t, o)
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	pass := []byte("correct horse")
	if err := keystore.ChangeNextRootPassphrase(o.NextRootPath, log, nil, pass); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.NextRoot(o.NextRootPath, log, nil); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("without the passphrase: %v", err)
	}
	seed, err := keystore.NextRoot(o.NextRootPath, log, pass)
	if err != nil {
		t.Fatal(err)
	}
	seed.Destroy()
	if err := keystore.ChangeNextRootPassphrase(o.NextRootPath, log, []byte("wrong"), nil); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("with a wrong one: %v", err)
	}
}

func TestDestroy(t *testing.T) {
	o := options(t)
	s := create(t, o)
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(o.Dir, "store.db"), []byte("x"))
	write(t, filepath.Join(o.Dir, "drafts", "1"), []byte("x"))
	// A second name of the key file shows what becomes of its bytes.
	link := filepath.Join(t.TempDir(), "root.key")
	if err := os.Link(filepath.Join(o.Dir, "root.key"), link); err != nil {
		t.Fatal(err)
	}
	open, err := s.Unlock(nil, now)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Destroy()
	tomb, err := s.Destroy("test", now+5)
	if err != nil {
		t.Fatal(err)
	}
	want := keystore.Tombstone{ACEID: log.ACEID(), Seq: 1, LastHash: log.LastHash(), DestroyedAt: now + 5}
	if got, ok, err := keystore.ReadTombstone(o.Dir); tomb != want || got != want || !ok || err != nil {
		t.Errorf("tombstone %+v, read %+v %v %v", tomb, got, ok, err)
	}
	if left := names(t, o.Dir); !slices.Equal(left, []string{"destroyed.json", "identity.lock", "kel.json"}) {
		t.Errorf("left behind %v", left)
	}
	if strings.Trim(string(read(t, link)), "\x00") != "" {
		t.Error("the bytes of root.key were not overwritten")
	}
	if _, err := os.Lstat(o.NextRootPath); err != nil {
		t.Errorf("the next root: %v", err)
	}

	if _, err := open.Identity.Sign(kel.ActionPacket, now, []byte("x")); !errors.Is(err, keystore.ErrDestroyed) {
		t.Errorf("a process that had the key open signs: %v", err)
	}
	if _, err := keystore.Open(o.Dir); !errors.Is(err, keystore.ErrDestroyed) || !errors.Is(err, fault.IdentityUnavailable) || !strings.Contains(err.Error(), log.ACEID()) {
		t.Errorf("Open: %v", err)
	}
	if list, err := keystore.List(filepath.Dir(o.Dir)); err != nil || len(list) != 0 {
		t.Errorf("List: %v, %v", list, err)
	}
	o.NextRootPath += "2"
	if _, err := keystore.Create(o, now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("the name was given again: %v", err)
	}
	if _, err := s.Destroy("test", now); !errors.Is(err, keystore.ErrDestroyed) {
		t.Errorf("destroyed twice: %v", err)
	}
}

// A kill after the tombstone leaves keys. The next look at the identity erases
// them, whatever it was for.
func TestOpenEndsADestruction(t *testing.T) {
	o := options(t)
	s := create(t, o)
	keys := read(t, filepath.Join(o.Dir, "agent.key"))
	if _, err := s.Destroy("test", now); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(o.Dir, "agent.key"), keys)
	if _, err := keystore.Open(o.Dir); !errors.Is(err, keystore.ErrDestroyed) {
		t.Errorf("Open: %v", err)
	}
	if left := names(t, o.Dir); !slices.Equal(left, []string{"destroyed.json", "identity.lock", "kel.json"}) {
		t.Errorf("left behind %v", left)
	}
}

func TestRename(t *testing.T) {
	o := options(t)
	s := create(t, o)
	to := filepath.Join(filepath.Dir(o.Dir), "bob")
	lock, err := s.Lock("ace identity rotate", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Rename(o.Dir, to, "test", now); !errors.Is(err, fault.LockBusy) {
		t.Errorf("beside another verb: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	renamed, err := keystore.Rename(o.Dir, to, "test", now)
	if err != nil {
		t.Fatal(err)
	}
	if renamed.Dir() != to {
		t.Errorf("is now %s", renamed.Dir())
	}
	if _, err := keystore.Open(o.Dir); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("the old name: %v", err)
	}
	o.NextRootPath += "2"
	create(t, o)
	if _, err := keystore.Rename(o.Dir, to, "test", now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("onto another identity: %v", err)
	}
}
