package relaysvc

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// maxExpired bounds the listings that a page passes over because their
// descriptor has expired since the last sweep, some microseconds each. A page
// that would pass over more is refused until the sweep has taken them away: it
// may not be empty while there is more to list.
const maxExpired = 10_000

// serveDirectory is GET /v1/cards (07#descriptors-and-cards).
func (s *Server) serveDirectory(w http.ResponseWriter, r *request) error {
	query, err := r.query()
	if err != nil {
		return err
	}
	d, err := relayapi.ParseDirectory(query)
	if err != nil {
		return err
	}
	after, err := parseCursor(d.Cursor)
	if err != nil {
		return err
	}
	page := relayapi.NewDirectoryPage(d.Limit)
	last, more := "", false
	err = s.db.Directory(r.Context(), relaydb.Listing{
		After:   after,
		Limit:   d.Limit,
		Expired: maxExpired,
		Tag:     d.Tag,
		Profile: d.Profile,
		Now:     r.now,
	}, func(aceID string, bundle []byte) bool {
		if more = !page.AddCard(bundle); more {
			return false
		}
		last = aceID
		return true
	})
	if errors.Is(err, relaydb.Behind) {
		refused := fault.New(relayapi.RateLimited, "%s", relaydb.Behind)
		refused.RetryAfter = int64(s.config.Timeouts.Sweep / time.Second)
		return refused
	}
	if err != nil {
		return err
	}
	cursor := ""
	if more {
		cursor = formatCursor(last)
	}
	return s.accept(w, page.Finish(cursor))
}

// A cursor is the digest of the last ACE ID of a page, so that it also
// continues after an agent that is gone.

func formatCursor(aceID string) string {
	return strings.TrimPrefix(aceID, wire.ACEID(""))
}

func parseCursor(cursor string) (aceID string, err error) {
	switch {
	case cursor == "":
		return "", nil
	case !wire.IsHexDigest(cursor):
		return "", fault.New(fault.InvalidArgument, "parameter cursor: not one of this relay")
	}
	return wire.ACEID(cursor), nil
}
