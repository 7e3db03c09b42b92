package relaysvc

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// codes gives each refusal of the store its code (07#errors). Changed has
// none: a request that meets it is decided anew.
var codes = map[relaydb.Refusal]fault.Code{
	relaydb.NotRegistered: fault.NotRegistered,
	relaydb.Replayed:      relayapi.Replay,
	relaydb.OtherKEL:      fault.KELConflict,
	relaydb.NotNewer:      fault.StaleDescriptor,
	relaydb.OldRevision:   relayapi.StaleRevision,
	relaydb.TooManyPeers:  relayapi.LimitExceeded,
	relaydb.Unreachable:   fault.NotPermitted,
	relaydb.Full:          relayapi.RecipientInboxFull,
	relaydb.OverBudget:    relayapi.RateLimited,
	relaydb.DiskFull:      relayapi.RateLimited,
	relaydb.Unknown:       fault.UnknownPeer,
}

// notPermitted is the message of every not_permitted: a sender cannot tell an
// unknown, a closed and a blocking recipient apart (07#send).
const notPermitted = "the recipient does not accept this packet"

// noRoom is the message of a request for which the disk has no room.
const noRoom = "the relay has no room left"

// retryAfter is the delay in seconds that a 429 without one of its own asks for.
const retryAfter = 30

// refuse answers a request with err. It is the one place that writes error
// bodies (07#errors).
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code, message, delay := s.explain(r.Context(), err)
	status := relayapi.HTTPStatus(code)
	if status == http.StatusTooManyRequests {
		if delay < 1 {
			delay = retryAfter
		}
		w.Header().Set("Retry-After", strconv.FormatInt(delay, 10))
	}
	refusedWith(w, code)
	s.write(w, status, relayapi.ErrorBody(code, message))
}

// explain returns what the client is told about err. What failed inside the
// relay is for its log alone, and not even for that when it failed because the
// client hung up: anybody can do so as often as they like.
func (s *Server) explain(ctx context.Context, err error) (code fault.Code, message string, delay int64) {
	var refusal relaydb.Refusal
	if errors.As(err, &refusal) {
		code = codes[refusal]
	} else {
		code = fault.CodeOf(err)
	}
	if code == fault.NotPermitted {
		return code, notPermitted, 0
	}
	if refusal == relaydb.DiskFull {
		s.log.Error("request failed", "error", err)
		return code, noRoom, 0
	}
	if _, ok := relayapi.Statuses()[code]; !ok || code == relayapi.InternalError {
		if ctx.Err() == nil {
			s.log.Error("request failed", "error", err)
		}
		return relayapi.InternalError, "", 0
	}
	var e *fault.Error
	if errors.As(err, &e) {
		delay = e.RetryAfter
	}
	return code, err.Error(), delay
}

// accept answers a request with 200 and a JSON body.
func (s *Server) accept(w http.ResponseWriter, body []byte) error {
	s.write(w, http.StatusOK, body)
	return nil
}

// Header values that every answer has, in the form that net/http keeps.
var (
	valueJSON    = []string{relayapi.MediaJSON}
	valueNosniff = []string{"nosniff"}
	valueNoStore = []string{"no-store"}
)

func (s *Server) write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = valueJSON
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The client is gone when this fails, and there is nobody to tell.
	_, _ = w.Write(body)
}
