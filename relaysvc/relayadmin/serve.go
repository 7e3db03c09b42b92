package relayadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

const (
	maxPage     = 1000 // entries of a list in one answer
	maxBody     = 1 << 16
	headerLimit = 10 * time.Second
)

// Relay is the relay that the operator acts on.
type Relay struct {
	relaysvc.Operator
	Audit *AuditLog
	// Log takes which connections were refused. Default: nothing is logged.
	Log slog.Handler
}

// lastAnswers is how long an answer in progress may still take at the end: the
// one to a drain is.
const lastAnswers = 2 * time.Second

// Serve answers on ln until ctx ends, finishes what is in progress, closes ln
// and removes the socket. On Linux only processes of the relay's own user and of
// root get an answer, whoever else can reach the socket.
func Serve(ctx context.Context, ln net.Listener, r Relay) error {
	server := &http.Server{
		Handler:           r.handler(),
		ReadHeaderTimeout: headerLimit,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	if r.Log == nil {
		r.Log = slog.DiscardHandler
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ownersListener{ln, slog.New(r.Log)}) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.StorageFailed, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	<-ended
	return nil
}

// action answers a request with a value to be written as JSON.
type action func(Relay, *http.Request) (any, error)

// reads lists the requests that change nothing, changes those that are
// recorded, with the name they are recorded under.
var (
	reads = map[string]action{
		"GET /status":          Relay.status,
		"GET /identities":      Relay.identities,
		"GET /identities/{id}": Relay.identity,
		"GET /handles":         Relay.handles,
		"POST /verify":         Relay.verify,
	}
	changes = map[string]struct {
		name string
		do   action
	}{
		"POST /drain":                        {"drain", Relay.drain},
		"POST /backup":                       {"backup", Relay.backup},
		"POST /gc":                           {"gc", Relay.collect},
		"PUT /identities/{id}/suspension":    {"suspend", Relay.suspend},
		"DELETE /identities/{id}/suspension": {"resume", Relay.resume},
		"DELETE /identities/{id}":            {"purge", Relay.purge},
		"PUT /identities/{id}/quota":         {"quota set", Relay.setQuota},
		"DELETE /identities/{id}/quota":      {"quota clear", Relay.clearQuota},
		"PUT /handles/{handle}":              {"handle reserve", Relay.reserve},
		"DELETE /handles/{handle}":           {"handle release", Relay.release},
	}
)

func (r Relay) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range reads {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			answer, err := do(r, q)
			respond(w, answer, err)
		})
	}
	for pattern, change := range changes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			var answer any
			line := auditLine{At: r.Now(), Action: change.name, Target: target(q), Request: request(q)}
			err := r.Audit.record(line, func() (err error) {
				answer, err = change.do(r, q)
				return err
			})
			respond(w, answer, err)
		})
	}
	return mux
}

// request is the body of a request, for the audit log, which leaves it to be
// read again. One that is no JSON is refused by the action.
func request(q *http.Request) json.RawMessage {
	text, _ := io.ReadAll(io.LimitReader(q.Body, maxBody))
	q.Body = io.NopCloser(bytes.NewReader(text))
	if !json.Valid(text) {
		return nil
	}
	return text
}

// target is what a request is about, for the audit log.
func target(q *http.Request) string {
	for _, name := range []string{"id", "handle"} {
		if v := q.PathValue(name); v != "" {
			return v
		}
	}
	return q.URL.Query().Get("path")
}

// failure is the body of a refusal.
type failure struct {
	Code    fault.Code `json:"error"`
	Message string     `json:"message"`
}

func respond(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		answer = failure{fault.CodeOf(err), err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// done is the answer of an action that has no other.
type done struct {
	OK bool `json:"ok"`
}

func answerDone(err error) (any, error) { return done{true}, err }

func (r Relay) status(q *http.Request) (any, error) {
	s := r.Status(q.Context())
	status := Status{PublicURL: s.PublicURL, Data: s.Data, PID: os.Getpid(), Draining: s.Draining, Store: StoreOK, Streams: s.Streams, Now: s.Now}
	if s.Failure != nil {
		status.Store = s.Failure.Error()
	}
	return status, nil
}

func (r Relay) identities(q *http.Request) (any, error) {
	after, limit, err := position(q.URL.Query())
	if err != nil {
		return nil, err
	}
	accounts, err := r.Accounts(q.Context(), after, limit)
	all := make([]Identity, len(accounts))
	for i, a := range accounts {
		all[i] = newIdentity(a)
	}
	return all, err
}

func (r Relay) identity(q *http.Request) (any, error) {
	id, err := aceID(q)
	if err != nil {
		return nil, err
	}
	a, err := r.Account(q.Context(), id)
	return newIdentity(a), err
}

func (r Relay) suspend(q *http.Request) (any, error) { return r.setSuspension(q, true) }
func (r Relay) resume(q *http.Request) (any, error)  { return r.setSuspension(q, false) }

func (r Relay) setSuspension(q *http.Request, suspended bool) (any, error) {
	id, err := aceID(q)
	if err != nil {
		return nil, err
	}
	return answerDone(r.Suspend(q.Context(), id, suspended))
}

func (r Relay) purge(q *http.Request) (any, error) {
	id, err := aceID(q)
	if err != nil {
		return nil, err
	}
	return answerDone(r.Purge(q.Context(), id))
}

func (r Relay) setQuota(q *http.Request) (any, error) {
	id, err := aceID(q)
	if err != nil {
		return nil, err
	}
	var quota Quota
	if err := body(q, &quota); err != nil {
		return nil, err
	}
	return answerDone(r.SetQuota(q.Context(), id, &relaydb.Quota{Entries: quota.Entries, Bytes: quota.Bytes}))
}

func (r Relay) clearQuota(q *http.Request) (any, error) {
	id, err := aceID(q)
	if err != nil {
		return nil, err
	}
	return answerDone(r.SetQuota(q.Context(), id, nil))
}

func (r Relay) handles(q *http.Request) (any, error) {
	after, limit, err := position(q.URL.Query())
	if err != nil {
		return nil, err
	}
	handles, err := r.Handles(q.Context(), after, limit)
	all := make([]Handle, len(handles))
	for i, h := range handles {
		all[i] = newHandle(h)
	}
	return all, err
}

func (r Relay) reserve(q *http.Request) (any, error) {
	return answerDone(r.Reserve(q.Context(), q.PathValue("handle")))
}

func (r Relay) release(q *http.Request) (any, error) {
	return answerDone(r.Release(q.Context(), q.PathValue("handle")))
}

func (r Relay) collect(q *http.Request) (any, error) { return answerDone(r.Collect(q.Context())) }

func (r Relay) verify(q *http.Request) (any, error) {
	report, err := r.Verify(q.Context())
	return NewReport(report), err
}

// backup writes the file itself, so that the copy passes through nobody's
// memory. Its path is absolute: the relay has another current folder than the
// command that asks.
func (r Relay) backup(q *http.Request) (any, error) {
	path := q.URL.Query().Get("path")
	if !filepath.IsAbs(path) {
		return nil, fault.New(fault.InvalidArgument, "the path of a backup is absolute, not %.200q", path)
	}
	b, err := r.Operator.Backup(q.Context(), path)
	return Backup{Report: NewReport(b.Report), Path: path, SHA256: b.SHA256, Size: b.Size}, err
}

// drainRequest is the body of POST /drain, in seconds; null keeps what the
// relay was configured with.
type drainRequest struct {
	Deadline *float64 `json:"deadline"`
	Spread   *float64 `json:"spread"`
}

func (r Relay) drain(q *http.Request) (any, error) {
	var d drainRequest
	if err := body(q, &d); err != nil {
		return nil, err
	}
	r.Operator.Drain(d.bounds())
	return done{true}, nil
}

func (d drainRequest) bounds() relaysvc.Drain {
	return relaysvc.Drain{Deadline: seconds(d.Deadline), Spread: seconds(d.Spread)}
}

func seconds(s *float64) *time.Duration {
	if s == nil {
		return nil
	}
	d := time.Duration(*s * float64(time.Second))
	return &d
}

func aceID(q *http.Request) (string, error) {
	id := q.PathValue("id")
	if !wire.IsACEID(id) {
		return "", fault.New(fault.InvalidArgument, "%.80q is not an ACE ID", id)
	}
	return id, nil
}

// position returns where a list goes on and how much of it is wanted.
func position(q url.Values) (after string, limit int, err error) {
	limit = maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return "", 0, fault.New(fault.InvalidArgument, "limit is in [1, %d]", maxPage)
		}
	}
	return q.Get("after"), limit, nil
}

func body(q *http.Request, into any) error {
	d := json.NewDecoder(io.LimitReader(q.Body, maxBody))
	d.DisallowUnknownFields()
	return fault.Wrap(fault.InvalidArgument, d.Decode(into))
}
