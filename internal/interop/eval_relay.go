package interop

import (
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalRelayAuth judges a header-authenticated request as the relay does
// (07#authentication).
func evalRelayAuth(a *args, now int64) (wire.Value, error) {
	action, arguments := a.r.String("action"), a.r.Value("args")
	registered, audience := a.r.Value("registeredKel"), a.r.String("audience")
	header := headerMap(a.r.Value("headers"))
	seen, _ := a.r.Optional("seenNonces")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if err := wire.CheckTime(now); err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	h, err := relayapi.ParseHeaders(header)
	if err != nil {
		return wire.Value{}, err
	}
	payload, err := argumentPayload(action, arguments, h.ID)
	if err != nil {
		return wire.Value{}, err
	}
	state, err := optionalLog(registered, now)
	if err != nil {
		return wire.Value{}, err
	}
	if err := h.Verify(action, payload, audience, state, now); err != nil {
		return wire.Value{}, err
	}
	if slices.ContainsFunc(seen.Items(), wire.NewString(h.Nonce).Equal) {
		return wire.Value{}, fault.New(relayapi.Replay, "the nonce was used before")
	}
	return facts(str("aceId", h.ID), num("timestamp", h.Timestamp), num("seq", h.Seq)), nil
}

// headerMap turns an object of strings into headers; any other member counts as
// absent.
func headerMap(v wire.Value) map[string][]string {
	h := map[string][]string{}
	for _, m := range v.Members() {
		if s, ok := m.Value.AsString(); ok {
			h[m.Key] = append(h[m.Key], s)
		}
	}
	return h
}

// optionalLog verifies a log that may be null.
func optionalLog(v wire.Value, now int64) (*kel.State, error) {
	if v.Kind() == wire.Null {
		return nil, nil
	}
	return kel.Verify(v, now)
}

// argumentPayload validates the arguments of an action, given as JSON, and
// returns its payload (02#signing-actions).
func argumentPayload(action string, arguments wire.Value, caller string) ([]byte, error) {
	if arguments.Kind() != wire.Object {
		return nil, fault.New(fault.InvalidArgument, "arguments: not an object")
	}
	switch action {
	case kel.ActionUnregister:
		return relayapi.UnregisterPayload(), nil
	case kel.ActionBlock:
		b, err := relayapi.ParseBlock(arguments, caller)
		return relayapi.BlockPayload(b.Peer, b.Blocked, b.Revision), err
	case kel.ActionWake:
		if len(arguments.Members()) == 0 {
			return relayapi.WakeDeletePayload(), nil
		}
		w, err := relayapi.ParseWake(arguments, wire.Production)
		return relayapi.WakePayload(w.Gateway, w.Token), err
	}
	query, err := queryOf(arguments)
	if err != nil {
		return nil, err
	}
	switch action {
	case kel.ActionListen:
		since, err := relayapi.ParseListen(query)
		return relayapi.ListenPayload(since), err
	case kel.ActionInbox:
		since, limit, err := relayapi.ParseInbox(query)
		return relayapi.InboxPayload(since, limit), err
	case kel.ActionInboxAck:
		through, err := relayapi.ParseAck(query)
		return relayapi.AckPayload(through), err
	}
	return nil, fmt.Errorf("%w: action %q", errCannotEvaluate, action)
}

// queryOf writes arguments as the query they stand for: limit a number, the
// others strings.
func queryOf(arguments wire.Value) (map[string][]string, error) {
	query := map[string][]string{}
	for _, m := range arguments.Members() {
		text, ok := m.Value.AsString()
		if m.Key == "limit" {
			var n int64
			n, ok = m.Value.AsInt()
			text = wire.Decimal(n)
		}
		if !ok {
			return nil, fault.New(fault.InvalidArgument, "argument %s: of the wrong type", m.Key)
		}
		query[m.Key] = []string{text}
	}
	return query, nil
}

// evalRegistration judges a registration as the relay does, against what it
// keeps of the identity (07#registration).
func evalRegistration(a *args, now int64) (wire.Value, error) {
	audience := a.r.String("audience")
	record, recordErr := storedRecord(a)
	horizon := storedHorizon(a)
	request, err := a.object("request", relayapi.InvalidRegistration)
	if closeErr := a.close(); closeErr != nil {
		return wire.Value{}, closeErr
	}
	if err := wire.CheckTime(now); err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	if err != nil {
		return wire.Value{}, err
	}
	if recordErr != nil {
		return wire.Value{}, recordErr
	}
	r, err := relayapi.VerifyRegistration(request, audience, now, relayapi.Options{})
	if err != nil {
		return wire.Value{}, err
	}
	status, err := r.Against(record, horizon)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(str("status", string(status)), str("mDigest", r.MDigest), str("lastHash", r.State.LastHash())), nil
}

// storedRecord reads what the relay keeps of an identity whose log it has: the
// stored registration, or the retained log of an unregistered one.
func storedRecord(a *args) (*relayapi.Record, error) {
	rec := &relayapi.Record{Barrier: relayapi.NoBarrier}
	if a.r.Has("barrier") {
		rec.Barrier = a.r.Int("barrier")
	}
	var log wire.Value
	switch {
	case a.r.Has("stored"):
		stored := a.r.Object("stored")
		log, rec.Registered = stored.Value("kel"), true
		rec.Timestamp, rec.MDigest = stored.Int("timestamp"), stored.String("mDigest")
		_ = stored.Close() // the error is a's as well
	case a.r.Has("retainedKel"):
		log = a.r.Value("retainedKel")
	default:
		return nil, nil
	}
	state, err := storedLog(log)
	rec.State = state
	return rec, err
}

func storedHorizon(a *args) *relayapi.Horizon {
	if !a.r.Has("horizon") {
		return nil
	}
	h := a.r.Object("horizon")
	start, last := h.Object("epochStart"), h.Object("last")
	out := &relayapi.Horizon{
		EpochSeq: start.Int("seq"), EpochHash: start.String("hash"),
		LastSeq: last.Int("seq"), LastHash: last.String("hash"),
		Barrier: h.Int("barrier"),
	}
	_, _, _ = start.Close(), last.Close(), h.Close() // the errors are a's as well
	return out
}
