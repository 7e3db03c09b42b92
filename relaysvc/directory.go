package relaysvc

import (
	"context"
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
	page := &directoryPage{memory: s.answers, limit: d.Limit}
	defer func() { s.answers.free(&page.buffer) }()
	err = page.fill(r.Context(), s.db, relaydb.Listing{
		After:   after,
		Limit:   d.Limit,
		Expired: maxExpired,
		Tag:     d.Tag,
		Profile: d.Profile,
		Now:     r.now,
	})
	if errors.Is(err, relaydb.Behind) {
		refused := fault.New(relayapi.RateLimited, "%s", relaydb.Behind)
		refused.RetryAfter = int64(s.config.Timeouts.Sweep / time.Second)
		return refused
	}
	if err != nil {
		return err
	}
	return s.acceptLent(w, page.finish(), s.answers, page.buffer.held())
}

// directoryPage is a page that is being made. Its memory grows with what is
// found, and counts until the client has taken the page.
type directoryPage struct {
	memory *memory
	buffer buffer
	limit  int64
	page   *relayapi.Page
	last   string // ACE ID of the last entry
	more   bool   // there are entries after it
	short  int    // bytes that the page needs and did not get
}

// fill makes the page of a listing. Code: rate_limited (too many answers at the
// same time).
func (p *directoryPage) fill(ctx context.Context, db *relaydb.DB, l relaydb.Listing) error {
	for {
		p.page, p.last, p.more, p.short = relayapi.NewDirectoryPage(p.limit).Within(p.buffer.data), "", false, 0
		err := db.Directory(ctx, l, p.add)
		if err != nil || p.short == 0 {
			return err
		}
		// Not while rows were read. What is given back first cannot be what
		// others wait for.
		p.memory.free(&p.buffer)
		size := sizeFor(p.short)
		if !p.memory.take(ctx, int64(sizes[size]), bodyPatience) {
			return errNoMemory
		}
		p.memory.grow(&p.buffer, size)
	}
}

func (p *directoryPage) add(aceID string, bundle []byte) bool {
	if !p.room(p.page.Len() + len(bundle) + relayapi.PageOverhead(1)) {
		return false
	}
	if p.more = !p.page.AddCard(bundle); p.more {
		return false
	}
	p.last = aceID
	return true
}

// room has the page go on in a buffer for need bytes, if there is memory. The
// largest holds every page.
func (p *directoryPage) room(need int) bool {
	size := sizeFor(need)
	if sizes[size] <= cap(p.buffer.data) {
		return true
	}
	if !p.memory.try(int64(sizes[size])) {
		p.short = need
		return false
	}
	var larger buffer
	p.memory.grow(&larger, size)
	p.page.Within(larger.data)
	p.memory.free(&p.buffer)
	p.buffer = larger
	return true
}

func (p *directoryPage) finish() []byte {
	if !p.more {
		return p.page.Finish("")
	}
	return p.page.Finish(formatCursor(p.last))
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
