package relaydb

import (
	"context"
	"database/sql"
	"errors"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// checkMode refuses a file that others can reach. Of one that is no relay's it
// says that instead: there is no use in changing its mode.
func checkMode(ctx context.Context, path string) error {
	mode := ownerfile.CheckFile(path)
	if mode == nil {
		return nil
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return fault.Wrapf(fault.StorageFailed, errForeign, "%s", path)
	}
	db, err := sql.Open("sqlite", dsn(path)+untouched)
	if err != nil {
		return storage(err)
	}
	defer db.Close()
	if err := checkRelay(ctx, db); errors.Is(err, errForeign) {
		return fault.Wrapf(fault.StorageFailed, err, "%s", path)
	}
	return mode
}

// errForeign is the error of a file that a relay did not make.
var errForeign = errors.New("not the store of a relay, nor a backup of one")

// checkRelay refuses a database that is not a store of this version.
func checkRelay(ctx context.Context, db *sql.DB) error {
	var have int
	var relay bool
	err := db.QueryRowContext(ctx, `
SELECT user_version, EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'relay')
FROM pragma_user_version`).Scan(&have, &relay)
	switch {
	case resultCode(err) == sqlite3.SQLITE_NOTADB, err == nil && !relay:
		return fault.Wrap(fault.StorageFailed, errForeign)
	case err != nil:
		return storage(err)
	case have != version:
		return fault.New(fault.StorageFailed, "the store has schema version %d, this program knows %d", have, version)
	}
	return nil
}
