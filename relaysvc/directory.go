package relaysvc

import (
	"net/http"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

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
		Home:    s.audience,
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
