package relaydb

import (
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// prepareFiles makes the store's folder and file when they are missing, and
// refuses them when others than the owner can reach them. SQLite gives the
// files that it makes beside the store the mode of the store.
func prepareFiles(path string) error {
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, f.Close())
}
