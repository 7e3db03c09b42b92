package keystore_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

const later = now + 3600

// renewal returns the options of a change that nobody else has come before.
func renewal(t *testing.T, s *keystore.Store) keystore.Renewal {
	t.Helper()
	return keystore.Renewal{After: logOf(t, s).LastHash(), NotAfter: later + 86400, Command: "test"}
}

func rotation(t *testing.T, s *keystore.Store, o keystore.CreateOptions) keystore.Rotation {
	t.Helper()
	next, err := keystore.NextRoot(o.NextRootPath, logOf(t, s), o.NextPassphrase)
	if err != nil {
		t.Fatal(err)
	}
	r := keystore.Rotation{Renewal: renewal(t, s), NextRoot: next, NextRootPath: o.NextRootPath + ".2", NextPassphrase: o.NextPassphrase}
	r.Passphrase = o.Passphrase
	return r
}

func logOf(t *testing.T, s *keystore.Store) *kel.State {
	t.Helper()
	log, err := s.Log(later)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// types spells a log as in "icp dlg rot dlg".
func types(log *kel.State) (text string) {
	for _, e := range log.Events() {
		text += e.Type + " "
	}
	return text[:len(text)-1]
}

func vault(t *testing.T, s *keystore.Store, pass []byte) *suite.Seed {
	t.Helper()
	u, err := s.Unlock(pass, later)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Identity.Sign(kel.ActionPacket, later, []byte("x")); err != nil {
		t.Fatal(err)
	}
	return u.Vault
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "identity.lock" {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDelegate(t *testing.T) {
	o := options(t)
	o.Passphrase = []byte("correct horse")
	o.Files = map[string][]byte{"settings.toml": []byte("relay = 1\n")}
	s := create(t, o)
	before, kept := files(t, o.Dir), vault(t, s, o.Passphrase)
	r := renewal(t, s)
	r.Passphrase = o.Passphrase
	log, err := s.Delegate(r, later)
	if err != nil {
		t.Fatal(err)
	}
	if types(log) != "icp dlg dlg" || log.Delegated().NotAfter != r.NotAfter || log.LastTS() != later {
		t.Errorf("log %s until %d at %d", types(log), log.Delegated().NotAfter, log.LastTS())
	}
	if logOf(t, s).LastHash() != log.LastHash() {
		t.Error("the log on disk is another one")
	}
	if !vault(t, s, o.Passphrase).Equal(kept) {
		t.Error("the vault key changed: the prekeys of the store are lost")
	}
	after := files(t, o.Dir)
	for name, text := range before {
		if changed := !bytes.Equal(text, after[name]); changed != (name == "kel.json" || name == "agent.key") {
			t.Errorf("%s: changed %v", name, changed)
		}
	}
	if len(after) != len(before) {
		t.Errorf("files now: %v", after)
	}
}

// A rotation keeps what it was not asked to change, writes the new next root to
// a new file, and leaves nothing that opens as the old root.
func TestRotate(t *testing.T) {
	o := options(t)
	o.NextPassphrase = []byte("battery staple")
	s := create(t, o)
	kept := vault(t, s, nil)
	oldRoot := logOf(t, s).Root()
	oldNext, _ := os.ReadFile(o.NextRootPath)
	oldFile := filepath.Join(t.TempDir(), "root.key")
	if err := os.Link(filepath.Join(o.Dir, "root.key"), oldFile); err != nil {
		t.Fatal(err)
	}
	r := rotation(t, s, o)
	r.Files = func() (map[string][]byte, error) {
		if _, err := s.Lock("somebody else", later); !errors.Is(err, fault.LockBusy) {
			t.Errorf("files are made without the lock: %v", err)
		}
		return map[string][]byte{"settings.toml": []byte("new")}, nil
	}
	log, err := s.Rotate(r, later)
	if err != nil {
		t.Fatal(err)
	}
	if types(log) != "icp dlg rot dlg" || bytes.Equal(log.Root(), oldRoot) {
		t.Errorf("log %s", types(log))
	}
	if !vault(t, s, nil).Equal(kept) {
		t.Error("the vault key changed")
	}
	root, err := s.Root(nil, later)
	if err != nil || !bytes.Equal(root.PublicKey(), log.Root()) {
		t.Errorf("root.key: %v", err)
	}
	if text, err := os.ReadFile(oldFile); err != nil || len(bytes.Trim(text, "\x00")) > 0 {
		t.Errorf("the old root was not overwritten: %v", err)
	}
	if text, _ := os.ReadFile(o.NextRootPath); !bytes.Equal(text, oldNext) {
		t.Error("the old next root was touched")
	}
	if next, err := keystore.NextRoot(r.NextRootPath, log, o.NextPassphrase); err != nil {
		t.Error(err)
	} else {
		next.Destroy()
	}
	if _, err := keystore.NextRoot(o.NextRootPath, log, o.NextPassphrase); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("the used next root: %v", err)
	}
	if got := files(t, o.Dir); string(got["settings.toml"]) != "new" || len(got) != 4 {
		t.Errorf("files now: %v", got)
	}
}

// The holder of the next root takes the identity back from whoever has the
// root, in its folder and on a machine that has nothing else.
func TestRecover(t *testing.T) {
	o := options(t)
	s := create(t, o)
	root, err := s.Root(nil, now)
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := logOf(t, s).Delegate(root, suite.NewSigningKey(suite.NewSeed()).PublicKey(), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	next, err := keystore.NextRoot(o.NextRootPath, stolen, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := options(t)
	b, err := keystore.CreateRecovered(bare, stolen, next, later)
	if err != nil {
		t.Fatal(err)
	}
	vault(t, b, nil)
	log, err := s.Recover(rotation(t, s, o), stolen, later)
	if err != nil {
		t.Fatal(err)
	}
	vault(t, s, nil)
	for name, log := range map[string]*kel.State{"folder": log, "bare": logOf(t, b)} {
		if types(log) != "icp rot dlg" {
			t.Errorf("%s: log %s", name, types(log))
		}
		if outcome, _, err := kel.Reconcile(stolen, log); outcome != kel.Recovered {
			t.Errorf("%s: a peer that holds the thief's log: %s, %v", name, outcome, err)
		}
	}
	// The log on disk is ahead of the one to recover from by a rot.
	r := rotation(t, s, keystore.CreateOptions{NextRootPath: o.NextRootPath + ".2"})
	r.NextRootPath += ".3"
	inception, err := kel.Verify(wire.NewArray(stolen.Value().Items()[0]), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, seen := range []*kel.State{stolen, inception} {
		if _, err := s.Recover(r, seen, later); !errors.Is(err, fault.KELConflict) {
			t.Errorf("from a log of an older root: %v", err)
		}
		r = rotation(t, s, keystore.CreateOptions{NextRootPath: o.NextRootPath + ".2"})
	}
}

// Refusals change no file.
func TestRenewRefuses(t *testing.T) {
	o := options(t)
	s := create(t, o)
	before := files(t, filepath.Dir(filepath.Dir(o.Dir)))
	lock, err := s.Lock("other", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delegate(renewal(t, s), later); !errors.Is(err, fault.LockBusy) {
		t.Errorf("locked: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*keystore.Rotation)
		code   fault.Code
	}{
		"log moved on":   {func(r *keystore.Rotation) { r.After = logOf(t, s).Events()[0].Hash }, fault.LockBusy},
		"key too long":   {func(r *keystore.Rotation) { r.NotAfter = later + 367*86400 }, fault.InvalidArgument},
		"path taken":     {func(r *keystore.Rotation) { r.NextRootPath = o.NextRootPath }, fault.InvalidArgument},
		"beside root":    {func(r *keystore.Rotation) { r.NextRootPath = filepath.Join(o.Dir, "next-root") }, fault.InvalidArgument},
		"another root":   {func(r *keystore.Rotation) { r.NextRoot = suite.NewSeed() }, fault.IdentityUnavailable},
		"wrong password": {func(r *keystore.Rotation) { r.NextPassphrase = []byte{} }, fault.InvalidArgument},
	} {
		r := rotation(t, s, o)
		c.change(&r)
		if _, err := s.Rotate(r, later); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
		if after := files(t, filepath.Dir(filepath.Dir(o.Dir))); !equal(before, after) {
			t.Fatalf("%s: files changed", name)
		}
	}
}

func equal(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if !bytes.Equal(text, b[name]) {
			return false
		}
	}
	return true
}

// A clock that is behind the log dates the event like the last one
// (01#key-event-log: ts does not decrease).
func TestDelegateWithAClockBehind(t *testing.T) {
	s := create(t, options(t))
	log, err := s.Delegate(renewal(t, s), now-3600)
	if err != nil || log.LastTS() != now {
		t.Errorf("%v", err)
	}
}

// A key in memory signs nothing once the log on disk delegates to another
// (01#operational-signatures).
func TestReplacedKeySignsNothing(t *testing.T) {
	s := create(t, options(t))
	u, err := s.Unlock(nil, later)
	if err != nil {
		t.Fatal(err)
	}
	sign := func() error {
		_, err := u.Identity.Sign(kel.ActionPacket, later, []byte("x"))
		return err
	}
	if err := errors.Join(sign(), u.CheckCurrent()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delegate(renewal(t, s), later); err != nil {
		t.Fatal(err)
	}
	if err := u.CheckCurrent(); !errors.Is(err, fault.IdentityUnavailable) || !errors.Is(err, keystore.ErrReplaced) {
		t.Errorf("the key is current after the change: %v", err)
	}
	if err := sign(); !errors.Is(err, fault.IdentityUnavailable) || !errors.Is(err, keystore.ErrReplaced) {
		t.Errorf("after the change: %v", err)
	}
}

// halfway lays the files of a change beside those that it is to replace.
func halfway(t *testing.T, folder string, moved ...string) (s *keystore.Store, was, is *kel.State) {
	t.Helper()
	o := options(t)
	s = create(t, o)
	was = logOf(t, s)
	before := files(t, o.Dir)
	if _, err := s.Rotate(rotation(t, s, o), later); err != nil {
		t.Fatal(err)
	}
	is = logOf(t, s)
	if err := os.Mkdir(filepath.Join(o.Dir, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if slices.Contains(moved, name) {
			continue
		}
		path := filepath.Join(o.Dir, name)
		if err := os.Rename(path, filepath.Join(o.Dir, folder, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, was, is
}

// A change that holds is what readers see, whatever was moved, and the next
// command moves the rest. One that does not hold is as if it had not been.
func TestChangeOfADeadProcess(t *testing.T) {
	for name, c := range map[string]struct {
		folder string
		moved  []string
		holds  bool
	}{
		"not made":       {"change.new", nil, false},
		"none moved":     {"change", nil, true},
		"log moved":      {"change", []string{"kel.json"}, true},
		"one key moved":  {"change", []string{"kel.json", "root.key"}, true},
		"all were moved": {"change", []string{"kel.json", "root.key", "agent.key"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, was, is := halfway(t, c.folder, c.moved...)
			want := was
			if c.holds {
				want = is
			}
			check := func() {
				t.Helper()
				if got := logOf(t, s); got.LastHash() != want.LastHash() {
					t.Errorf("log %s, want %s", types(got), types(want))
				}
				vault(t, s, nil)
				root, err := s.Root(nil, later)
				if err != nil {
					t.Fatal(err)
				}
				root.Destroy()
			}
			check()
			if err := s.Settle("test", later); err != nil {
				t.Fatal(err)
			}
			check()
			if got := files(t, s.Dir()); len(got) != 3 {
				t.Errorf("files left: %v", got)
			}
			for _, folder := range []string{"change", "change.new"} {
				if _, err := os.Lstat(filepath.Join(s.Dir(), folder)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", folder, err)
				}
			}
		})
	}
}

// A change that was not made takes its next root with it, and no other file
// that lies there.
func TestNextRootOfAChangeThatWasNotMade(t *testing.T) {
	o := options(t)
	s := create(t, o)
	path := filepath.Join(t.TempDir(), "next-root")
	for text, stays := range map[string]bool{"the next root": false, "another file": true} {
		if err := os.Mkdir(filepath.Join(o.Dir, "change.new"), 0o700); err != nil {
			t.Fatal(err)
		}
		note := suite.Hex256([]byte("the next root")) + " " + path
		if err := os.WriteFile(filepath.Join(o.Dir, "change.new", "next-root"), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle("test", later); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v", text, err)
		}
	}
}
