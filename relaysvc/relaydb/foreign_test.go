package relaydb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestForeignFile is refused for what it is: its mode is its own.
func TestForeignFile(t *testing.T) {
	dir := dataDir(t)
	text, folder, copied := filepath.Join(dir, "passwd"), filepath.Join(dir, "folder"), filepath.Join(dir, "copy.db")
	must(t, os.WriteFile(text, []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644))
	must(t, os.Mkdir(folder, 0o755))
	d := open(t, filepath.Join(dir, "relay.db"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	must(t, os.Chmod(copied, 0o644))
	const chmod, foreign = "run chmod 0600", "not the store of a relay, nor a backup of one"
	for path, want := range map[string]string{text: foreign, folder: foreign, copied: chmod} {
		_, checked := relaydb.CheckBackup(ctx, path)
		_, verified := relaydb.VerifyFile(ctx, path, now)
		_, restored := relaydb.Restore(ctx, path, filepath.Join(dir, "other", "relay.db"), false, now)
		for what, err := range map[string]error{"checked": checked, "verified": verified, "restored": restored} {
			if fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want %q", path, what, err, want)
			}
		}
	}
	must(t, os.Chmod(text, 0o600))
	_, err = relaydb.CheckBackup(ctx, text)
	if err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("a text of mode 0600: %v", err)
	}
}
