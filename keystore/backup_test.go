package keystore_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

var backupPass = []byte("tuba yacht")

// backedUp makes an identity and a backup of it.
func backedUp(t *testing.T, snapshot string) (o keystore.CreateOptions, s *keystore.Store, path string) {
	t.Helper()
	o = options(t)
	o.Files = map[string][]byte{"settings.toml": []byte("contact = \"closed\"\n")}
	s = create(t, o)
	path = filepath.Join(t.TempDir(), "alice.backup")
	b := keystore.BackupOptions{Path: path, Passphrase: backupPass, Command: "test"}
	if snapshot != "" {
		b.Snapshot = filepath.Join(t.TempDir(), "copy")
		write(t, b.Snapshot, []byte(snapshot))
	}
	c, err := s.Backup(b, now)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	if err := c.OpenKeys(nil); err != nil {
		t.Error(err)
	}
	return o, s, path
}

func restore(path, dir string, change func(*keystore.RestoreOptions)) (*keystore.Store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := keystore.RestoreOptions{Dir: dir, Passphrase: backupPass, Command: "test"}
	o.Check = func(*keystore.BackupContents, string) (bool, error) { return false, nil }
	if change != nil {
		change(&o)
	}
	s, _, err := keystore.Restore(f, o, now+9)
	return s, err
}

func TestBackupAndRestore(t *testing.T) {
	o, s, path := backedUp(t, "messages")
	before, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "identities", "bob")
	restored, err := restore(path, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kel.json", "root.key", "agent.key", "settings.toml"} {
		if !bytes.Equal(read(t, filepath.Join(o.Dir, name)), read(t, filepath.Join(dir, name))) {
			t.Errorf("%s is another one", name)
		}
	}
	if got := read(t, filepath.Join(dir, "store.db")); string(got) != "messages" {
		t.Errorf("store.db: %q", got)
	}
	if left := names(t, dir); !slices.Equal(left, []string{"agent.key", "kel.json", "root.key", "settings.toml", "store.db"}) {
		t.Errorf("restored %v", left)
	}
	if root, agent := opens(t, restored, nil); !root || !agent {
		t.Errorf("root %v, agent %v", root, agent)
	}
	if log, err := restored.Log(now); err != nil || log.LastHash() != before.LastHash() {
		t.Errorf("log: %v", err)
	}
	if bytes.Contains(read(t, path), []byte("plain")) {
		t.Error("the backup shows a key file")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the backup: %v, %v", info.Mode(), err)
	}
}

// A backup is read as a whole before it counts for anything, and a restore that
// fails leaves nothing.
func TestRestoreRefuses(t *testing.T) {
	_, _, path := backedUp(t, "messages")
	whole := read(t, path)
	cut := path + ".cut"
	write(t, cut, whole[:len(whole)-1])
	parent := filepath.Join(t.TempDir(), "identities")
	refused := fault.New(fault.KELConflict, "no")
	for name, c := range map[string]struct {
		path   string
		change func(*keystore.RestoreOptions)
		code   fault.Code
	}{
		"wrong passphrase": {path, func(o *keystore.RestoreOptions) { o.Passphrase = []byte("wrong") }, fault.IdentityUnavailable},
		"cut off":          {cut, nil, fault.StorageFailed},
		"check": {path, func(o *keystore.RestoreOptions) {
			o.Check = func(*keystore.BackupContents, string) (bool, error) { return false, refused }
		}, fault.KELConflict},
	} {
		if _, err := restore(c.path, filepath.Join(parent, "alice"), c.change); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
		if left := names(t, parent); !slices.Equal(left, []string{".create.lock"}) {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
}

// Two installations of an identity would sign different events for one seq
// (01#rotation-and-recovery), so it is not restored beside itself, nor over
// events that it signed after the backup.
func TestRestoreBesideItself(t *testing.T) {
	o, s, path := backedUp(t, "")
	parent := filepath.Dir(o.Dir)
	if _, err := restore(path, o.Dir, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("over itself: %v", err)
	}
	other := filepath.Join(parent, "bob")
	if _, err := restore(path, other, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("beside itself: %v", err)
	}

	// The same identity signs one more event and is destroyed.
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	short := read(t, filepath.Join(o.Dir, "kel.json"))
	if _, err := s.Delegate(keystore.Renewal{After: log.LastHash(), NotAfter: now + 99, Command: "test"}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Destroy("test", now); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(path, other, nil); !errors.Is(err, fault.KELConflict) {
		t.Errorf("over events signed since: %v", err)
	}
	// Without that event nothing was signed since the backup.
	write(t, filepath.Join(o.Dir, "kel.json"), short)
	if _, err := restore(path, other, nil); err != nil {
		t.Errorf("after a destruction: %v", err)
	}
}

// A restored identity signs no event until it was compared with its relay.
func TestRestoredSignsNoEvent(t *testing.T) {
	_, _, path := backedUp(t, "")
	dir := filepath.Join(t.TempDir(), "identities", "alice")
	s, err := restore(path, dir, func(o *keystore.RestoreOptions) {
		o.Check = func(*keystore.BackupContents, string) (bool, error) { return true, nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	if at, pending, err := s.Restored(); at != now || !pending || err != nil {
		t.Errorf("Restored = %d, %v, %v", at, pending, err)
	}
	if root, agent := opens(t, s, nil); root || !agent {
		t.Errorf("before: root %v, agent %v", root, agent)
	}
	log, err := s.Log(now)
	if err != nil {
		t.Fatal(err)
	}
	renewal := keystore.Renewal{After: log.LastHash(), NotAfter: now + 99, Command: "test"}
	if _, err := s.Delegate(renewal, now); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("Delegate: %v", err)
	}
	if _, err := s.Rotate(keystore.Rotation{Renewal: renewal}, now); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("Rotate: %v", err)
	}
	if err := s.ConfirmRestored(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delegate(renewal, now); err != nil {
		t.Errorf("Delegate: %v", err)
	}
	if root, agent := opens(t, s, nil); !root || !agent {
		t.Errorf("after: root %v, agent %v", root, agent)
	}
}

func TestBackupRefuses(t *testing.T) {
	o, s, path := backedUp(t, "")
	before := read(t, path)
	if _, err := s.Backup(keystore.BackupOptions{Path: path, Passphrase: backupPass}, now); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("over a file: %v", err)
	}
	if !bytes.Equal(before, read(t, path)) {
		t.Error("the file changed")
	}
	if _, err := s.Backup(keystore.BackupOptions{Path: path + "2"}, now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("without a passphrase: %v", err)
	}
	// Key files of another identity are found before the backup has a name.
	other := options(t)
	create(t, other)
	write(t, filepath.Join(o.Dir, "root.key"), read(t, filepath.Join(other.Dir, "root.key")))
	if _, err := s.Backup(keystore.BackupOptions{Path: path + "3", Passphrase: backupPass}, now); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("with the key of another: %v", err)
	}
	for _, n := range []string{"2", "3"} {
		if _, err := os.Lstat(path + n); err == nil {
			t.Errorf("a refused backup left %s", path+n)
		}
	}
	c, err := keystore.ReadBackup(bytes.NewReader(before), backupPass, io.Discard, now)
	if err != nil || c.Name != "alice" || c.Seq != 1 || c.CreatedAt != now || c.Store || c.Encrypted || c.Size != int64(len(before)) {
		t.Errorf("read %+v, %v", c, err)
	}
}
