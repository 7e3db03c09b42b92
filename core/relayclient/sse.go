package relayclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// maxEventBytes bounds the data of one event and each line of a stream. A relay
// takes a packet in a body of MAX_SEND_BODY_BYTES and wraps it here again.
const maxEventBytes = wire.MaxSendBodyBytes

var errEventTooLong = errors.New("an event or line of the stream is longer than a packet can be")

// StreamEvent is one dispatched Server-Sent Event.
type StreamEvent struct {
	Type  string // "message" when the stream names none
	ID    string
	HasID bool
	Data  []byte
}

// EventReader reads the events of a stream. Lines end with CR, LF or CRLF; an
// event is dispatched only if it has a data field, and id and event apply to
// their own event alone (07#client-rules). Where 07 is silent, on the leading
// byte order mark and on U+0000 in an id, it follows Server-Sent Events.
type EventReader struct {
	src     *bufio.Reader
	line    []byte
	started bool // the first line is read
	afterCR bool // an LF that comes next belongs to the line end before
}

// NewEventReader returns a reader of the stream src.
func NewEventReader(src io.Reader) *EventReader {
	return &EventReader{src: bufio.NewReaderSize(src, 32<<10)}
}

// Next returns the next event. It returns io.EOF at the end of the stream,
// dropping an unfinished event, the error of the source, or an error for an
// event or line above 2162688 bytes.
func (r *EventReader) Next() (StreamEvent, error) {
	var e StreamEvent
	dispatch := false
	for {
		line, err := r.next()
		if err != nil {
			return StreamEvent{}, err
		}
		if len(line) == 0 {
			if dispatch {
				return e.named(), nil
			}
			e = StreamEvent{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Type = string(value)
		case "id":
			e.setID(string(value))
		case "data":
			if dispatch {
				e.Data = append(e.Data, '\n')
			}
			dispatch = true
			if e.Data = append(e.Data, value...); len(e.Data) > maxEventBytes {
				return StreamEvent{}, errEventTooLong
			}
		}
	}
}

func (e StreamEvent) named() StreamEvent {
	if e.Type == "" {
		e.Type = relayapi.EventMessage
	}
	return e
}

func (e *StreamEvent) setID(id string) {
	if !strings.Contains(id, "\x00") {
		e.ID, e.HasID = id, true
	}
}

// next returns the next line without its end, valid until the next call.
func (r *EventReader) next() ([]byte, error) {
	r.line = r.line[:0]
	for {
		chunk, err := r.chunk()
		if err != nil {
			return nil, err
		}
		if r.afterCR {
			r.afterCR = false
			if chunk[0] == '\n' {
				r.discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			end = len(chunk)
		}
		if len(r.line)+end > maxEventBytes+len("data: ") {
			return nil, errEventTooLong
		}
		r.line = append(r.line, chunk[:end]...)
		if end == len(chunk) {
			r.discard(end)
			continue
		}
		// A CR ends the line at once: waiting for an LF would hold the event
		// back until the next one.
		r.afterCR = chunk[end] == '\r'
		r.discard(end + 1)
		return r.withoutMark(), nil
	}
}

// chunk returns what is buffered, reading when nothing is.
func (r *EventReader) chunk() ([]byte, error) {
	if _, err := r.src.Peek(1); err != nil {
		return nil, err
	}
	return r.src.Peek(r.src.Buffered())
}

// discard drops n buffered bytes, which cannot fail.
func (r *EventReader) discard(n int) { _, _ = r.src.Discard(n) }

// withoutMark removes the byte order mark of the first line.
func (r *EventReader) withoutMark() []byte {
	if r.started {
		return r.line
	}
	r.started = true
	return bytes.TrimPrefix(r.line, []byte("\ufeff"))
}
