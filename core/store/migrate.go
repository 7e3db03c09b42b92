package store

import (
	"context"
	"embed"
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
)

//go:embed *.sql
var sources embed.FS

// migrations are the files that lead from each schema version to the next:
// the first makes version 1 of an empty file.
var migrations = []string{"schema.sql", "threads.sql", "blocks.sql", "receiving.sql", "sealed.sql", "handling.sql", "audit.sql", "policy.sql"}

// rewrites are what a migration does to the rows that are there, where SQL alone
// cannot, by the name of its file.
var rewrites = map[string]func(*Tx) error{"sealed.sql": (*Tx).sealRows}

// migrate brings the file to the newest schema version. A file of a newer
// program is refused: it may hold rules that this one would break.
func (s *Store) migrate(ctx context.Context) error {
	return s.Update(ctx, func(tx *Tx) error {
		var version int
		if _, err := tx.get("PRAGMA user_version", nil, &version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fault.New(fault.StorageFailed, "store has schema version %d, and this program knows up to %d: use a newer one", version, len(migrations))
		}
		fresh := version == 0
		for ; version < len(migrations); version++ {
			if err := tx.migrateFrom(version); err != nil {
				return err
			}
			rewrite := rewrites[migrations[version]]
			if fresh || rewrite == nil {
				continue
			}
			if err := rewrite(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (tx *Tx) migrateFrom(version int) error {
	source, err := sources.ReadFile(migrations[version])
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	if err := tx.script(string(source)); err != nil {
		return err
	}
	return tx.script(fmt.Sprintf("PRAGMA user_version = %d", version+1))
}
