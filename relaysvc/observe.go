package relaysvc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// observed is the answer to one request, with what the metrics and the log
// want to know of it.
type observed struct {
	http.ResponseWriter
	code   fault.Code // of a refusal, "" for none
	status int
	bytes  int64 // of the body
}

// WriteHeader keeps the status.
func (o *observed) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes, of an answer with the status 200 where none was
// written.
func (o *observed) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	n, err := o.ResponseWriter.Write(p)
	o.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController the connection.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// refusedWith tells the observer of an answer which code it states.
func refusedWith(w http.ResponseWriter, code fault.Code) {
	if o, ok := w.(*observed); ok {
		o.code = code
	}
}

const (
	routeSend   = "POST /v1/send"
	routeListen = "GET /v1/listen"
)

// answered counts and logs a request that has been answered.
func (s *Server) answered(r *http.Request, o *observed, start time.Time) {
	took := time.Since(start)
	s.watchForwarding(r)
	route := s.metrics.route(r.Method, r.URL.EscapedPath())
	if r.Context().Err() != nil && o.code == relayapi.InternalError {
		o.code = codeGone // nothing failed here but the client's patience
	}
	code := o.code
	if code == "" {
		code = codeOK
	}
	if n := route.codes[code]; n != nil {
		n.Inc()
	}
	if route.label != routeListen || o.code != "" {
		route.seconds.Observe(took.Seconds())
	}
	if o.code != "" {
		s.metrics.refused(o.code)
		if route.label == routeSend {
			s.metrics.sendRefused(o.code)
		}
	}
	s.logAnswer(r, o, route.label, code, took)
}

// The headers that the log looks at, in the form that net/http keeps.
const (
	headerCaller    = "X-Ace-Id"
	headerForwarded = "X-Forwarded-For"
)

// logAnswer writes one line about a request: a refusal for the level info, the
// rest for debug. The line holds nothing that the client chose; who it was is
// in it only when the operator asked for that.
func (s *Server) logAnswer(r *http.Request, o *observed, route string, code fault.Code, took time.Duration) {
	level := slog.LevelDebug
	if o.code != "" && o.code != codeGone {
		level = slog.LevelInfo
	}
	ctx := context.WithoutCancel(r.Context())
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("route", route), slog.String("code", string(code)), slog.Int("status", o.status),
		slog.Duration("duration", took), slog.Int64("bytes", o.bytes),
	}
	if s.config.LogMetadata {
		attrs = append(attrs, slog.String("network", s.clientNetwork(r)))
		if id := r.Header.Get(headerCaller); id != "" {
			attrs = append(attrs, slog.String("caller", s.pseudonym(id)))
		}
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}

// pseudonym stands for an identity in the log. It is the same for as long as
// the process runs and leads back to nobody afterwards: its salt is gone then.
func (s *Server) pseudonym(id string) string {
	digest := sha256.Sum256(slices.Concat(s.salt, []byte(id)))
	return hex.EncodeToString(digest[:6])
}
