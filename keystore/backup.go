package keystore

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

// A backup is a container with an archive of the tar format in it: what it is
// (backupFile), then the log, the two key files as they are, the settings, and
// at most one more file, a copy of the endpoint's store. The next root is never
// part of it (01#rotation-and-recovery: it is stored apart).
const (
	kindBackup   = "identity-backup"
	backupFile   = "backup.json"
	settingsFile = "settings.toml"
	storeFile    = "store.db"
)

// settingsLimit bounds the settings in a backup, in bytes.
const settingsLimit = 1 << 20

// BackupInfo says what a backup is of.
type BackupInfo struct {
	Name      string // the local name it had
	ACEID     string
	Seq       int64  // of the last event of the log
	LastHash  string // hex hash of it
	CreatedAt int64
	Store     bool // the endpoint's store is in it
}

func (b BackupInfo) encode() []byte {
	return wire.NewObject(
		wire.M("name", wire.NewString(b.Name)),
		wire.M("aceId", wire.NewString(b.ACEID)),
		wire.M("seq", wire.NewInt(b.Seq)),
		wire.M("lastHash", wire.NewString(b.LastHash)),
		wire.M("createdAt", wire.NewInt(b.CreatedAt)),
		wire.M("store", wire.NewBool(b.Store)),
	).Canonical()
}

func decodeInfo(text []byte) (b BackupInfo, err error) {
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return b, err
	}
	r := wire.NewReader(v, "backup")
	b = BackupInfo{
		Name: r.String("name"), ACEID: r.ACEID("aceId"), Seq: r.Int("seq"), LastHash: r.HexDigest("lastHash"),
		CreatedAt: r.Int("createdAt"), Store: r.Bool("store"),
	}
	return b, r.Close()
}

// BackupOptions say what goes into a backup and where it goes.
type BackupOptions struct {
	Path       string // the file, which must not exist
	Snapshot   string // the file with a copy of the endpoint's store, "" for none
	Passphrase []byte // seals the backup; a backup is never unsealed
	Command    string
}

// Backup writes the identity into one sealed file at now. Before the file gets
// its name it is read back and verified. The caller destroys the contents. Codes: invalid_argument, lock_busy, identity_unavailable,
// storage_failed.
func (s *Store) Backup(o BackupOptions, now int64) (c *BackupContents, err error) {
	if len(o.Passphrase) == 0 {
		return nil, fault.New(fault.InvalidArgument, "a backup needs a passphrase")
	}
	lock, err := s.Lock(o.Command, now) // no event is appended while the files are read
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	log, err := s.Log(now)
	if err != nil {
		return nil, err
	}
	info := BackupInfo{
		Name: filepath.Base(s.dir), ACEID: log.ACEID(), Seq: log.Seq(), LastHash: log.LastHash(), CreatedAt: now, Store: o.Snapshot != "",
	}
	err = ownerfile.CreateWith(o.Path, func(f *os.File) error {
		if err := s.writeBackup(f, info, o); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		c, err = ReadBackup(f, o.Passphrase, io.Discard, now)
		return err
	})
	return c, err
}

func (s *Store) writeBackup(w io.Writer, info BackupInfo, o BackupOptions) error {
	head := containerHead{kind: kindBackup, aceID: info.ACEID, createdAt: info.CreatedAt, cost: cost{n: scryptN, r: scryptR, p: scryptP}}
	sealed, err := newContainer(w, head, o.Passphrase)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(sealed)
	if err := addToArchive(archive, backupFile, info.encode()); err != nil {
		return err
	}
	for _, part := range parts {
		text, err := ownerfile.Read(filepath.Join(s.dir, part.name), part.limit)
		if err == nil {
			err = addToArchive(archive, part.name, text)
		}
		clear(text)
		if err != nil {
			return err
		}
	}
	if o.Snapshot != "" {
		if err := copyToArchive(archive, storeFile, o.Snapshot); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return sealed.Close()
}

// parts are the files of a backup that are read whole, in order.
var parts = [...]struct {
	name  string
	limit int64
}{
	{logFile, wire.MaxPublishedAgentBytes},
	{rootFile, keyFileLimit},
	{agentFile, keyFileLimit},
	{settingsFile, settingsLimit},
}

func addToArchive(w *tar.Writer, name string, text []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write(text)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

func copyToArchive(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), Format: tar.FormatPAX})
	}
	if err == nil {
		_, err = io.Copy(w, f)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// BackupContents is a backup that was read to its end.
type BackupContents struct {
	BackupInfo
	Encrypted bool   // the keys in it are sealed under the identity's passphrase
	SHA256    string // of the file
	Size      int64  // of the file, in bytes

	files map[string][]byte
	log   *kel.State
}

// Log returns the verified log.
func (c *BackupContents) Log() *kel.State { return c.log }

// Settings returns the text of settings.toml.
func (c *BackupContents) Settings() []byte { return c.files[settingsFile] }

// Destroy clears the key files.
func (c *BackupContents) Destroy() {
	for _, text := range c.files {
		clear(text)
	}
}

// OpenKeys opens the two key files in memory, with the identity's passphrase,
// nil for none, and checks that they are those of the log. Codes:
// identity_unavailable, storage_failed.
func (c *BackupContents) OpenKeys(passphrase []byte) error {
	for _, f := range keyFiles {
		k, err := decodeKeyFile(c.files[f.name], f.name, f.kind)
		if err != nil {
			return err
		}
		seeds, err := k.open(passphrase, f.count)
		if err != nil {
			return err
		}
		held := publicKey(seeds[0])
		destroyAll(seeds)
		if string(held) != string(f.key(c.log)) {
			return fault.New(fault.IdentityUnavailable, "%s in the backup does not hold the key of its log", f.name)
		}
	}
	return nil
}

// keyFiles are the key files of an identity, and whose key the first seed of each
// has to be.
var keyFiles = [...]struct {
	name, kind string
	count      int
	key        func(*kel.State) []byte
}{
	{rootFile, kindRoot, 1, (*kel.State).Root},
	{agentFile, kindAgent, 2, delegatedKey},
}

func delegatedKey(log *kel.State) []byte {
	if d := log.Delegated(); d != nil {
		return d.Key
	}
	return nil
}

// ReadBackup reads a backup to its end and verifies what is in it: the log, and
// that the key files are those of the identity; see [BackupContents.OpenKeys] for
// the keys themselves. The copy of the store, if there is one, is written to
// store. The caller destroys the contents. Codes: identity_unavailable for a
// wrong passphrase, storage_failed for what is no whole backup.
func ReadBackup(r io.Reader, passphrase []byte, store io.Writer, now int64) (*BackupContents, error) {
	digest, size := sha256.New(), &counter{}
	sealed, err := openContainer(io.TeeReader(r, io.MultiWriter(digest, size)), kindBackup, passphrase)
	if err != nil {
		return nil, err
	}
	defer sealed.Close()
	c := &BackupContents{files: map[string][]byte{}}
	err = c.read(tar.NewReader(sealed), store)
	if err == nil {
		_, err = io.Copy(io.Discard, sealed) // what pads the archive, and the end
	}
	if err == nil {
		err = c.verify(sealed.head, now)
	}
	if err != nil {
		c.Destroy()
		if fault.CodeOf(err) == "" {
			err = fault.Wrapf(fault.StorageFailed, err, "backup")
		}
		return nil, err
	}
	c.SHA256, c.Size = hex.EncodeToString(digest.Sum(nil)), size.n
	return c, nil
}

// PeekBackup reads what a backup says of itself, which is authentic, and no
// further. Codes as [ReadBackup].
func PeekBackup(r io.Reader, passphrase []byte) (BackupInfo, error) {
	sealed, err := openContainer(r, kindBackup, passphrase)
	if err != nil {
		return BackupInfo{}, err
	}
	defer sealed.Close()
	text, err := readPart(tar.NewReader(sealed), backupFile, headLimit)
	if err != nil {
		return BackupInfo{}, fault.Wrap(fault.StorageFailed, err)
	}
	info, err := decodeInfo(text)
	return info, fault.Wrapf(fault.StorageFailed, err, "backup")
}

// counter counts the bytes written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func (c *BackupContents) read(archive *tar.Reader, store io.Writer) error {
	text, err := readPart(archive, backupFile, headLimit)
	if err != nil {
		return err
	}
	if c.BackupInfo, err = decodeInfo(text); err != nil {
		return err
	}
	for _, part := range parts {
		if c.files[part.name], err = readPart(archive, part.name, part.limit); err != nil {
			return err
		}
	}
	if c.Store {
		if err := nextPart(archive, storeFile); err != nil {
			return err
		}
		if _, err := io.Copy(store, archive); err != nil {
			return err
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("there is more in it than this program knows"), err)
	}
	return nil
}

// nextPart goes on to the file that has to come next.
func nextPart(archive *tar.Reader, name string) error {
	h, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF):
		return fault.New(fault.StorageFailed, "the backup lacks %s", name)
	case err != nil:
		return err
	case h.Name != name || h.Typeflag != tar.TypeReg:
		return fault.New(fault.StorageFailed, "the backup has %.80q in place of %s", h.Name, name)
	}
	return nil
}

func readPart(archive *tar.Reader, name string, limit int64) ([]byte, error) {
	if err := nextPart(archive, name); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(archive, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fault.New(fault.StorageFailed, "%s in the backup is larger than %d bytes", name, limit)
	}
	return text, err
}

// verify checks that all parts are of one identity, that of the head.
func (c *BackupContents) verify(head containerHead, now int64) (err error) {
	if c.log, err = decodeLog(c.files[logFile], now); err != nil {
		return err
	}
	if c.ACEID != c.log.ACEID() || c.Seq != c.log.Seq() || c.LastHash != c.log.LastHash() || head.aceID != c.ACEID || head.createdAt != c.CreatedAt {
		return errors.New("its parts are not of one identity")
	}
	for _, f := range keyFiles {
		k, err := decodeKeyFile(c.files[f.name], f.name, f.kind)
		if err != nil {
			return err
		}
		clear(k.plain)
		if k.aceID != c.ACEID {
			return errors.New("its parts are not of one identity")
		}
		c.Encrypted = k.encrypted()
	}
	return nil
}
