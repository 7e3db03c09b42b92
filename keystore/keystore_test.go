package keystore_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

const now = 1760140800

func options(t *testing.T) keystore.CreateOptions {
	t.Helper()
	home := t.TempDir()
	return keystore.CreateOptions{
		Dir:          filepath.Join(home, "identities", "alice"),
		NextRootPath: filepath.Join(home, "recovery", "alice.next-root"),
		Lifetime:     86400,
		Command:      "test",
	}
}

func create(t *testing.T, o keystore.CreateOptions) *keystore.Store {
	t.Helper()
	s, err := keystore.Create(o, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCreateThenUse(t *testing.T) {
	o := options(t)
	s := create(t, o)
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Unlock(nil, now)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Destroy()
	if u.Identity.ACEID() != log.ACEID() {
		t.Error("the unlocked identity is another one")
	}
	if d := log.Delegated(); d.NotAfter != now+o.Lifetime {
		t.Errorf("the signing key ends at %d, want %d", d.NotAfter, now+o.Lifetime)
	}
	payload := []byte("payload")
	sig, err := u.Identity.Sign(kel.ActionPacket, now, payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.VerifySignature(kel.ActionPacket, sig, now, now, payload, fault.InvalidSignature); err != nil {
		t.Error(err)
	}
	root, err := s.Root(nil, now)
	if err != nil {
		t.Fatal(err)
	}
	root.Destroy()
	next, err := keystore.NextRoot(o.NextRootPath, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	next.Destroy()
}

func TestFilesAppearWithTheKeys(t *testing.T) {
	o := options(t)
	o.Files = map[string][]byte{"settings.toml": []byte("relay = 1\n"), "root.key": []byte("no key")}
	s := create(t, o)
	got, err := os.ReadFile(filepath.Join(s.Dir(), "settings.toml"))
	if err != nil || string(got) != "relay = 1\n" {
		t.Errorf("settings.toml: %q, %v", got, err)
	}
	root, err := s.Root(nil, now)
	if err != nil {
		t.Fatal("a file took the place of a key: ", err)
	}
	root.Destroy()
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	o := options(t)
	create(t, o)
	for _, root := range []string{filepath.Dir(o.Dir), filepath.Dir(o.NextRootPath)} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCreateRefusesAndChangesNothing(t *testing.T) {
	o := options(t)
	create(t, o)
	kelPath := filepath.Join(o.Dir, "kel.json")
	before, err := os.ReadFile(kelPath)
	if err != nil {
		t.Fatal(err)
	}
	again := o
	again.NextRootPath += ".2"
	inside := o
	inside.Dir += "2"
	inside.NextRootPath = filepath.Join(inside.Dir, "next-root")
	taken := o
	taken.Dir += "3"
	long := taken
	long.Lifetime = wire.MaxSigningKeyLifetime + 1
	empty := again
	empty.Passphrase = []byte{}
	for name, c := range map[string]keystore.CreateOptions{"identity exists": again, "next root inside": inside, "next root exists": taken, "lifetime": long, "empty passphrase": empty} {
		if _, err := keystore.Create(c, now); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, err := os.ReadFile(kelPath)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the log changed: %v", err)
	}
	names, err := keystore.List(filepath.Dir(o.Dir))
	if err != nil || len(names) != 1 {
		t.Errorf("identities now: %v, %v", names, err)
	}
	if _, err := os.Lstat(again.NextRootPath); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused Create left a next root behind")
	}
}

func TestPassphrase(t *testing.T) {
	o := options(t)
	o.Passphrase, o.NextPassphrase = []byte("correct horse"), []byte("battery staple")
	s := create(t, o)
	if enc, err := s.Encrypted(); err != nil || !enc {
		t.Fatalf("Encrypted = %v, %v", enc, err)
	}
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Unlock(o.Passphrase, now)
	if err != nil {
		t.Fatal(err)
	}
	u.Destroy()
	for name, wrong := range map[string][]byte{"none": nil, "wrong": []byte("battery staple")} {
		if _, err := s.Unlock(wrong, now); !errors.Is(err, fault.IdentityUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := keystore.NextRoot(o.NextRootPath, log, o.Passphrase); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("the next root opened under the other passphrase: %v", err)
	}
	if next, err := keystore.NextRoot(o.NextRootPath, log, o.NextPassphrase); err != nil {
		t.Error(err)
	} else {
		next.Destroy()
	}
}

// TestDamage changes every byte of a sealed key file once and expects no key
// from any of them.
func TestDamage(t *testing.T) {
	o := options(t)
	s := create(t, o)
	path := filepath.Join(o.Dir, "agent.key")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(good) - 1 { // the last byte is the line's end
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := s.Unlock(nil, now)
		if err != nil {
			continue
		}
		u.Destroy()
		// The vault key of an unsealed file has no redundancy to check.
		if plain := bytes.Index(good, []byte(`"plain":"`)); i < plain {
			t.Fatalf("byte %d changed and the keys opened", i)
		}
	}
}

func TestKeysOfAnotherIdentity(t *testing.T) {
	a, b := options(t), options(t)
	s := create(t, a)
	create(t, b)
	for _, name := range []string{"agent.key", "root.key"} {
		data, err := os.ReadFile(filepath.Join(b.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(a.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Unlock(nil, now); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("Unlock: %v", err)
	}
	if _, err := s.Root(nil, now); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("Root: %v", err)
	}
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.NextRoot(b.NextRootPath, log, nil); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("NextRoot: %v", err)
	}
}

func TestOpenRefusesWhatOthersCanRead(t *testing.T) {
	o := options(t)
	s := create(t, o)
	if err := os.Chmod(filepath.Join(o.Dir, "agent.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unlock(nil, now); !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("Unlock: %v", err)
	}
	for _, name := range []string{"agent.key", "root.key", "kel.json"} {
		path := filepath.Join(o.Dir, name)
		if err := os.Chmod(path, 0o604); err != nil {
			t.Fatal(err)
		}
		if _, err := keystore.Open(o.Dir); !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), "chmod 0600") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(o.Dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Open(o.Dir); !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), "chmod 0700") {
		t.Errorf("Open: %v", err)
	}
	if _, err := keystore.Open(o.Dir + "-none"); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("no identity: %v", err)
	}
}

func TestLockNamesTheHolder(t *testing.T) {
	s := create(t, options(t))
	l, err := s.Lock("ace identity rotate", now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lock("ace publish", now)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.LockBusy || e.Holder == nil || e.Holder.Command != "ace identity rotate" {
		t.Errorf("second Lock: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A log can be ahead of the clock: its owner's clock was, or is behind now.
func TestClockBehindTheLog(t *testing.T) {
	s := create(t, options(t))
	for _, at := range []int64{0, now - 3600} {
		u, err := s.Unlock(nil, at)
		if err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		u.Destroy()
	}
}

func TestDamagedLog(t *testing.T) {
	o := options(t)
	s := create(t, o)
	path := filepath.Join(o.Dir, "kel.json")
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		text string
		code fault.Code
	}{
		"no JSON":      {"{", fault.StorageFailed},
		"no log":       {"{}", fault.IdentityUnavailable},
		"no events":    {"[]", fault.IdentityUnavailable},
		"another time": {strings.Replace(string(log), `"ts":1760140800`, `"ts":1760140801`, 1), fault.IdentityUnavailable},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Unlock(nil, now); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A Create that was killed leaves a folder behind. The next one removes it.
func TestCreateAfterOneThatWasKilled(t *testing.T) {
	o := options(t)
	parent := filepath.Dir(o.Dir)
	left := filepath.Join(parent, ".new-1234")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "root.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, o)
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}
