package relayapi

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// OK returns the body {"ok":true}.
func OK() []byte { return []byte(`{"ok":true}`) }

// OKStatus returns the body of an accepted registration.
func OKStatus(s Status) []byte {
	return wire.NewObject(wire.M("ok", wire.NewBool(true)), wire.M("status", wire.NewString(string(s)))).Canonical()
}

// ParseOK checks the body {"ok":true}, which may have further members.
// Code: relay_protocol_error.
func ParseOK(body []byte) error {
	_, err := parseOK(body)
	return err
}

func parseOK(body []byte) (wire.Value, error) {
	v, err := parseResponse(body)
	if err != nil {
		return wire.Value{}, err
	}
	if ok, _ := v.Get("ok"); !ok.Equal(wire.NewBool(true)) {
		return wire.Value{}, errResponse("no member ok that is true")
	}
	return v, nil
}

// ParseOKStatus returns the status of an accepted registration.
// Code: relay_protocol_error.
func ParseOKStatus(body []byte) (Status, error) {
	v, err := parseOK(body)
	if err != nil {
		return "", err
	}
	member, _ := v.Get("status")
	text, _ := member.AsString()
	switch s := Status(text); s {
	case Registered, Idempotent, Refreshed, Rotated:
		return s, nil
	}
	return "", errResponse("status is none of registered, idempotent, refreshed and rotated")
}

// parseResponse parses a whole response (07#client-rules): an object within
// MAX_JSON_DEPTH + 3.
func parseResponse(body []byte) (wire.Value, error) {
	v, err := wire.Parse(body, wire.MaxResponseDepth)
	if err != nil {
		return wire.Value{}, fault.Wrapf(fault.RelayProtocolError, err, "response")
	}
	if v.Kind() != wire.Object {
		return wire.Value{}, errResponse("is %s, not an object", v.Kind())
	}
	return v, nil
}

func errResponse(format string, args ...any) error {
	return fault.New(fault.RelayProtocolError, "response: "+format, args...)
}

// withinDepth checks a protocol object inside a response. One violation refuses
// the whole response, never an entry of it (07#client-rules).
func withinDepth(object wire.Value, what string) error {
	if !object.WithinDepth(wire.MaxJSONDepth) {
		return errResponse("%s is nested deeper than %d", what, wire.MaxJSONDepth)
	}
	return nil
}

// ParseLookup parses the answer to a lookup: a PublishedAgent or a CardBundle,
// which the caller verifies. Code: relay_protocol_error.
func ParseLookup(body []byte) (wire.Value, error) {
	v, err := parseResponse(body)
	if err != nil {
		return wire.Value{}, err
	}
	return v, withinDepth(v, "the object")
}

// Entry is one entry of an inbox or of a stream. The packet may be any JSON
// within MAX_JSON_DEPTH: the receive pipeline decodes it.
type Entry struct {
	StreamID string
	Packet   wire.Value
}

// ParseInboxPage parses the answer of GET /v1/inbox to a request after since:
// at most MAX_INBOX_PAGE entries in ascending stream order (07#inbox). The last
// entry's ID is the next since, and an empty page is the end.
// Code: relay_protocol_error.
func ParseInboxPage(body []byte, since string) ([]Entry, error) {
	v, err := parseResponse(body)
	if err != nil {
		return nil, err
	}
	items, err := pageItems(v, "messages")
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(items))
	for i, item := range items {
		id, _ := item.Get("streamId")
		packet, ok := item.Get("packet")
		text, _ := id.AsString()
		switch {
		case !wire.IsStreamID(text) || !ok:
			return nil, errResponse("messages[%d] is not {streamId, packet}", i)
		case since != Dash && wire.CompareStreamIDs(text, since) <= 0:
			return nil, errResponse("messages[%d] is not after the entry before it", i)
		}
		if err := withinDepth(packet, "a packet"); err != nil {
			return nil, err
		}
		entries[i], since = Entry{StreamID: text, Packet: packet}, text
	}
	_, err = pageCursor(v)
	return entries, err
}

// pageItems returns the named list of a page, at most MAX_INBOX_PAGE long.
func pageItems(page wire.Value, name string) ([]wire.Value, error) {
	list, _ := page.Get(name)
	if list.Kind() != wire.Array || len(list.Items()) > wire.MaxInboxPage {
		return nil, errResponse("%s is no list of at most %d", name, wire.MaxInboxPage)
	}
	return list.Items(), nil
}

// pageCursor returns the cursor of a page, "" for null.
func pageCursor(page wire.Value) (string, error) {
	cursor, ok := page.Get("cursor")
	if !ok || cursor.Kind() != wire.Null && cursor.Kind() != wire.String {
		return "", errResponse("cursor is neither a string nor null")
	}
	text, _ := cursor.AsString()
	return text, nil
}

// DirectoryPage is one page of GET /v1/cards: complete CardBundles, which the
// caller verifies, and the cursor of the next page, "" on the final one
// (07#descriptors-and-cards).
type DirectoryPage struct {
	Cards  []wire.Value
	Cursor string
}

// ParseDirectoryPage parses the answer of GET /v1/cards.
// Code: relay_protocol_error.
func ParseDirectoryPage(body []byte) (DirectoryPage, error) {
	v, err := parseResponse(body)
	if err != nil {
		return DirectoryPage{}, err
	}
	cards, err := pageItems(v, "cards")
	if err != nil {
		return DirectoryPage{}, err
	}
	for _, card := range cards {
		if err := withinDepth(card, "a CardBundle"); err != nil {
			return DirectoryPage{}, err
		}
	}
	cursor, err := pageCursor(v)
	return DirectoryPage{Cards: cards, Cursor: cursor}, err
}
