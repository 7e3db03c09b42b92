package relaysvc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// maxHeaderBytes bounds the header of a request: an authenticated one has some
// 7 KB.
const maxHeaderBytes = 16 << 10

// request is a request with the one clock reading of its decision.
type request struct {
	*http.Request
	now int64
	// target is the last segment of the path on the lookup routes.
	target string
}

// route answers a request, or returns the error to refuse it with, having
// written nothing.
type route func(*Server, http.ResponseWriter, *request) error

// routes lists the fixed paths of 07#endpoints. Wake hints are not offered, and
// so their routes do not exist (07#wake-hints).
var routes = map[string]route{
	"POST /v1/register":   (*Server).serveRegister,
	"POST /v1/unregister": (*Server).serveUnregister,
	"POST /v1/descriptor": (*Server).servePublishDescriptor,
	"POST /v1/card":       (*Server).servePublishCard,
	"GET /v1/cards":       (*Server).serveDirectory,
	"POST /v1/blocks":     (*Server).serveBlock,
	"POST /v1/send":       (*Server).serveSend,
	"GET /v1/inbox":       (*Server).serveInbox,
	"POST /v1/inbox/ack":  (*Server).serveAck,
	"GET /v1/listen":      (*Server).serveListen,
	"GET /health":         (*Server).serveHealth,
}

// lookups lists the paths that end in what is looked up.
var lookups = map[string]route{
	"GET /v1/descriptor/": (*Server).serveDescriptor,
	"GET /v1/card/":       (*Server).serveCard,
	"GET /v1/handles/":    (*Server).serveHandle,
}

// find returns the route of a request and the target of a lookup, or nil. The
// path is taken as it is: none is cleaned, and nobody is sent elsewhere.
func find(method, path string) (route, string) {
	if r, ok := routes[method+" "+path]; ok {
		return r, ""
	}
	i := strings.LastIndexByte(path, '/') + 1
	return lookups[method+" "+path[:i]], path[i:]
}

// Handler returns the relay as an HTTP handler. It needs Config.PublicURL,
// which only Serve can take from a socket.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer s.catch(w, r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		// Also what no route reads: net/http takes some of it in before it answers.
		s.setReadDeadline(w)
	}
	if err := s.dispatch(w, r); err != nil {
		s.refuse(w, r, err)
	}
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) error {
	serve, target := find(r.Method, r.URL.Path)
	if serve == nil {
		return fault.New(relayapi.NotFound, "no such route")
	}
	now := s.config.Clock()
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	return serve(s, w, &request{Request: r, now: now, target: target})
}

// catch turns a panic, which only a mistake in the relay can cause, into an
// internal_error for this one request.
func (s *Server) catch(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("panic", "value", fmt.Sprint(p), "stack", string(debug.Stack()))
	s.refuse(w, r, fault.New(relayapi.InternalError, "panic"))
}

// serveHealth is GET /health, which is the operator's (07#operations).
func (s *Server) serveHealth(w http.ResponseWriter, r *request) error {
	switch {
	case s.hub.isDraining():
		s.write(w, http.StatusServiceUnavailable, []byte(`{"status":"draining"}`))
	case s.db.Check(r.Context()) != nil:
		s.write(w, http.StatusServiceUnavailable, []byte(`{"status":"failed"}`))
	default:
		return s.accept(w, []byte(`{"status":"ok"}`))
	}
	return nil
}

// query returns the parameters of a request.
func (r *request) query() (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "malformed query")
	}
	return q, nil
}

// firstRead is the memory that a request gets before it has sent as much.
const firstRead = 16 << 10

// readBody returns the body of a request, which has to be JSON of at most
// limit bytes. Codes: invalid_argument, payload_too_large.
func (s *Server) readBody(w http.ResponseWriter, r *request, limit int64) ([]byte, error) {
	// Joined, because one given twice is no media type.
	media, _, err := mime.ParseMediaType(strings.Join(r.Header.Values("Content-Type"), ","))
	if err != nil || media != relayapi.MediaJSON {
		return nil, s.abandon(w, r, limit, fault.New(fault.InvalidArgument, "content type is not %s", relayapi.MediaJSON))
	}
	tooLarge := fault.New(relayapi.PayloadTooLarge, "body over %d bytes", limit)
	if r.ContentLength > limit {
		return nil, s.abandon(w, r, limit, tooLarge)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	n, err := body.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, fault.New(fault.InvalidArgument, "the body did not arrive in time")
	case err != nil:
		return nil, fault.New(fault.InvalidArgument, "the body ended early")
	case n > limit:
		return nil, s.abandon(w, r, limit, tooLarge)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// setReadDeadline bounds the time for the body of a request.
func (s *Server) setReadDeadline(w http.ResponseWriter) {
	// A handler under test may have no connection, and then no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.Timeouts.Body))
}

// abandon gives a body up that is refused with err, and returns err. It reads
// on for a while, because a client that is still writing when the connection
// closes might never see the answer.
func (s *Server) abandon(w http.ResponseWriter, r *request, limit int64, err error) error {
	w.Header().Set("Connection", "close")
	_, _ = io.CopyN(io.Discard, r.Body, limit)
	return err
}
