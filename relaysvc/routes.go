package relaysvc

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// request is a request with the one clock reading of its decision, which is made
// when all of the body has come.
type request struct {
	*http.Request
	now int64
	// target is the last segment of the path on the lookup routes.
	target string
	body   body
}

// route answers a request, or returns the error to refuse it with, having
// written nothing.
type route func(*Server, http.ResponseWriter, *request) error

// routes lists the fixed paths of 07#endpoints but for those of wakeRoutes.
var routes = map[string]route{
	"POST /v1/register":   storing((*Server).serveRegister),
	"POST /v1/unregister": (*Server).serveUnregister,
	"POST /v1/descriptor": storing((*Server).servePublishDescriptor),
	"POST /v1/card":       storing((*Server).servePublishCard),
	"GET /v1/cards":       (*Server).serveDirectory,
	"POST /v1/blocks":     (*Server).serveBlock,
	"POST /v1/send":       storing((*Server).serveSend),
	"GET /v1/inbox":       (*Server).serveInbox,
	"POST /v1/inbox/ack":  (*Server).serveAck,
	"GET /v1/listen":      (*Server).serveListen,
}

const routeHealth = "GET /health"

// operations lists the paths that are the operator's (07#operations). With
// MoveOperations they are on another listener than the rest, but for GET
// /health, which any client may ask for.
var operations = map[string]route{
	routeHealth:         (*Server).serveHealth,
	"GET /health/live":  (*Server).serveLive,
	"GET /health/ready": (*Server).serveReady,
	"GET /metrics":      (*Server).serveMetrics,
}

// lookups lists the paths that end in what is looked up.
var lookups = map[string]route{
	"GET /v1/descriptor/": (*Server).serveDescriptor,
	"GET /v1/card/":       (*Server).serveCard,
	"GET /v1/handles/":    (*Server).serveHandle,
}

// finder returns the route of a request and the target of a lookup, or nil.
type finder func(method, path string) (route, string)

// find is the finder of the main listener. The path is taken as it is: none is
// cleaned, and nobody is sent elsewhere.
func (s *Server) find(method, path string) (route, string) {
	key := method + " " + path
	if r, ok := routes[key]; ok {
		return r, ""
	}
	if r, ok := wakeRoutes[key]; ok && s.config.offersWakes() {
		return r, ""
	}
	if r, ok := operations[key]; ok && (s.ops == nil || key == routeHealth) {
		return r, ""
	}
	i := strings.LastIndexByte(path, '/') + 1
	return lookups[method+" "+path[:i]], path[i:]
}

// findOperation is the finder of the operator's listener.
func findOperation(method, path string) (route, string) { return operations[method+" "+path], "" }

// Handler returns the relay as an HTTP handler. It needs Config.PublicURL,
// which only Serve can take from a socket.
func (s *Server) Handler() http.Handler {
	if c := s.config.Chaos; c != nil {
		return &faults{Chaos: *c, server: s}
	}
	return http.HandlerFunc(s.serve)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.find) }

func (s *Server) serveOps(w http.ResponseWriter, r *http.Request) { s.answer(w, r, findOperation) }

func (s *Server) answer(to http.ResponseWriter, r *http.Request, find finder) {
	w := &observed{ResponseWriter: to}
	defer s.answered(r, w, time.Now())
	defer s.catch(w, r)
	w.Header()["X-Content-Type-Options"] = valueNosniff
	w.Header()["Cache-Control"] = valueNoStore
	if r.TLS != nil {
		w.Header().Set("Strict-Transport-Security", hsts)
	}
	if r.ContentLength != 0 {
		// Also what no route reads: net/http takes some of it in before it answers.
		s.setReadDeadline(w)
	}
	if r.ProtoMajor > 1 {
		s.multiplexed(w, r, func() error { return s.dispatch(w, r, find) })
		return
	}
	if err := s.dispatch(w, r, find); err != nil {
		s.refuse(w, r, err)
		readOn(w, r, err)
	}
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, find finder) error {
	// As it was written: /v1%2Finbox is another path than /v1/inbox.
	serve, target := find(r.Method, r.URL.EscapedPath())
	if serve == nil {
		return fault.New(relayapi.NotFound, "no such route")
	}
	target, err := url.PathUnescape(target)
	if err != nil {
		return fault.New(fault.InvalidArgument, "malformed path")
	}
	decision := &request{Request: r, target: target}
	if err := s.readClock(decision); err != nil {
		return err
	}
	defer s.release(decision)
	return serve(s, w, decision)
}

// readClock takes the time of a request. Code: invalid_argument.
func (s *Server) readClock(r *request) error {
	r.now = s.config.Clock()
	return fault.Wrap(fault.InvalidArgument, wire.CheckTime(r.now))
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

// query returns the parameters of a request.
func (r *request) query() (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "malformed query")
	}
	return q, nil
}
