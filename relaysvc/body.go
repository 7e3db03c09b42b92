package relaysvc

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// body is the body of a request in memory, from its arrival until the answer.
type body struct {
	buffer
	kept     bool // what was read from it may live longer than the request
	recalled bool // others needed the memory before all of it had come
}

// bodyPatience is how long a body waits for others to leave memory, before the
// request is refused.
const bodyPatience = 2 * time.Second

// readBody returns the body of a request, which has to be JSON of at most limit
// bytes, and makes the time of the request that of its end. Codes:
// invalid_argument, payload_too_large, rate_limited (too many bodies at the same
// time).
func (s *Server) readBody(w http.ResponseWriter, r *request, limit int64) ([]byte, error) {
	r.body.kept = true
	return s.borrowBody(w, r, limit)
}

// borrowBody is readBody for a route that holds on to nothing of the body: its
// memory is another's once the request is answered.
func (s *Server) borrowBody(w http.ResponseWriter, r *request, limit int64) ([]byte, error) {
	if !isJSON(r.Header["Content-Type"]) {
		return nil, s.abandon(w, r, limit, fault.New(fault.InvalidArgument, "content type is not %s", relayapi.MediaJSON))
	}
	if r.ContentLength > limit {
		return nil, s.abandon(w, r, limit, tooLarge(limit))
	}
	switch err := s.fill(w, r, limit); {
	case err != nil && r.body.recalled:
		w.Header().Set("Connection", "close")
		return nil, errNoMemory
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, fault.New(fault.InvalidArgument, "the body did not arrive in time")
	case errors.Is(err, errNoMemory):
		return nil, s.abandon(w, r, limit, err)
	case err != nil:
		return nil, fault.New(fault.InvalidArgument, "the body ended early")
	case int64(len(r.body.data)) > limit:
		return nil, s.abandon(w, r, limit, tooLarge(limit))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	// A body may come so slowly that what is in it, or the nonce beside it, was
	// still good when it began and is not now.
	if err := s.readClock(r); err != nil {
		return nil, err
	}
	return r.body.data, nil
}

func tooLarge(limit int64) error {
	return fault.New(relayapi.PayloadTooLarge, "body over %d bytes", limit)
}

func isJSON(contentType []string) bool {
	if len(contentType) == 1 && contentType[0] == relayapi.MediaJSON {
		return true
	}
	// Joined, because one given twice is no media type.
	media, _, err := mime.ParseMediaType(strings.Join(contentType, ","))
	return err == nil && media == relayapi.MediaJSON
}

// errNoMemory refuses a body or a page for which there is no room beside those
// of others.
var errNoMemory = &fault.Error{Code: relayapi.RateLimited, Msg: "too much is in memory for others", RetryAfter: 1}

// fill reads the body of a request until its end or past its limit. It takes
// memory for what has arrived, not for what was announced.
func (s *Server) fill(w http.ResponseWriter, r *request, limit int64) error {
	b := &r.body.buffer
	back := func() {}
	defer func() { back() }()
	for size := 0; ; size++ {
		if !s.bodies.take(r.Context(), int64(sizes[size]), bodyPatience) {
			return errNoMemory
		}
		s.bodies.grow(b, size)
		back()
		back = s.bodies.lend(b.held(), func() {
			r.body.recalled = true
			_ = http.NewResponseController(w).SetReadDeadline(longAgo)
		})
		room := b.data[:min(int64(cap(b.data)), limit+1)]
		n, err := readUntil(r.Body, room[len(b.data):])
		b.data = room[:len(b.data)+n]
		switch {
		case err == io.EOF || int64(len(b.data)) > limit:
			return nil
		case err != nil:
			return err
		}
	}
}

// readUntil reads until b is full or there is an error, the end among them.
func readUntil(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// release ends the use of the body of a request.
func (s *Server) release(r *request) {
	if r.body.kept {
		s.bodies.drop(&r.body.buffer)
		return
	}
	s.bodies.free(&r.body.buffer)
}

// setReadDeadline bounds the time for the body of a request.
func (s *Server) setReadDeadline(w http.ResponseWriter) {
	// A handler under test may have no connection, and then no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.Timeouts.Body))
}

// abandon gives a body up that is refused with err, whether it comes or not. One
// that waits to be told to come is not told so.
func (s *Server) abandon(w http.ResponseWriter, r *request, limit int64, err error) error {
	w.Header().Set("Connection", "close")
	if waitsToSend(r) || r.ProtoMajor > 1 { // HTTP/2 stops a client by itself
		return err
	}
	return &abandoned{err, limit}
}

// abandoned refuses a request whose body is still to come.
type abandoned struct {
	error
	rest int64 // bytes of it that are read after the answer
}

// Unwrap returns the refusal.
func (a *abandoned) Unwrap() error { return a.error }

// readOn sends the answer to a request that was refused with err and reads on
// for a while where the body is still to come: a client that is writing when the
// connection closes might never see the answer.
func readOn(w http.ResponseWriter, r *http.Request, err error) {
	var a *abandoned
	if !errors.As(err, &a) {
		return
	}
	if http.NewResponseController(w).Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, a.rest)
	}
}

// waitsToSend reports whether a client holds its body back until the relay asks
// for it, which net/http does when a route begins to read.
func waitsToSend(r *request) bool {
	return r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue") && r.body.data == nil
}
