package relayapi

import "github.com/ace-toolkit/ace/core/wire"

// Page collects the entries of an inbox or directory page as the relay reads
// them, up to MAX_PAGE_BYTES and MAX_INBOX_PAGE entries.
type Page struct {
	body    []byte
	entries int
	limit   int
}

// NewInboxPage starts a page of GET /v1/inbox of at most limit entries.
func NewInboxPage(limit int64) *Page { return newPage(`{"messages":[`, limit) }

// NewDirectoryPage starts a page of GET /v1/cards of at most limit entries.
func NewDirectoryPage(limit int64) *Page { return newPage(`{"cards":[`, limit) }

// Within has a page go on in the memory of buf, as far as it is enough, and
// returns the page. What it used before is free for another use.
func (p *Page) Within(buf []byte) *Page {
	p.body = append(buf[:0], p.body...)
	return p
}

// Len returns the bytes of the page so far, without its end.
func (p *Page) Len() int { return len(p.body) }

// PageOverhead is an upper bound of the bytes that a page of n entries has
// beside these.
func PageOverhead(n int) int { return 2*maxPageTail + n*maxEntryOverhead }

// maxEntryOverhead is what stands around a packet in a page.
const maxEntryOverhead = 128

func newPage(head string, limit int64) *Page {
	return &Page{body: []byte(head), limit: int(min(limit, wire.MaxInboxPage))}
}

// maxPageTail is the room kept for the end of a page: the members' brackets and
// a cursor, which this relay never makes longer.
const maxPageTail = 256

// Entries returns the number of entries so far.
func (p *Page) Entries() int { return p.entries }

// Full reports whether the page has as many entries as it may have.
func (p *Page) Full() bool { return p.entries >= p.limit }

// AddPacket adds an inbox entry from the canonical JSON of its packet, and
// reports whether it fits. The first entry always does (07#inbox).
func (p *Page) AddPacket(streamID string, packet []byte) bool {
	return p.add(`{"streamId":"`+streamID+`","packet":`, packet, `}`)
}

// AddCard adds a directory entry from the canonical JSON of a CardBundle, and
// reports whether it fits. The first entry always does
// (07#descriptors-and-cards).
func (p *Page) AddCard(bundle []byte) bool { return p.add("", bundle, "") }

func (p *Page) add(head string, object []byte, tail string) bool {
	size := len(p.body) + len(",") + len(head) + len(object) + len(tail) + maxPageTail
	if p.Full() || p.entries > 0 && size > wire.MaxPageBytes {
		return false
	}
	if p.entries > 0 {
		p.body = append(p.body, ',')
	}
	p.body = append(p.body, head...)
	p.body = append(p.body, object...)
	p.body = append(p.body, tail...)
	p.entries++
	return true
}

// Finish returns the page with the given cursor, "" for null: the last stream
// ID of an inbox page, an opaque text of at most 200 bytes for a directory page.
func (p *Page) Finish(cursor string) []byte {
	member := wire.Value{}
	if cursor != "" {
		member = wire.NewString(cursor)
	}
	body := append(p.body, `],"cursor":`...)
	body = member.AppendCanonical(body)
	return append(body, '}')
}
