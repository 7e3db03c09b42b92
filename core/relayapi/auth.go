package relayapi

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// The header names of 07#authentication, in the form HTTP libraries store them.
const (
	headerID        = "X-Ace-Id"
	headerTimestamp = "X-Ace-Timestamp"
	headerSeq       = "X-Ace-Seq"
	headerAudience  = "X-Ace-Audience"
	headerNonce     = "X-Ace-Nonce"
	headerSignature = "X-Ace-Signature"
)

const (
	maxAudienceLength = 2048 // characters
	maxIntegerDigits  = 16
)

// Headers are the decoded headers of an authenticated request
// (07#authentication).
type Headers struct {
	ID             string // the caller's ACE ID
	Timestamp, Seq int64
	Audience       string
	Nonce          string // 64 lowercase hex characters
	Signature      []byte // 3309 bytes
}

// ParseHeaders reads the six headers of 07#authentication from h, whose keys may
// have any case. Each has to be there exactly once. Code: invalid_argument.
func ParseHeaders(h map[string][]string) (Headers, error) {
	p := headerParser{values: map[string][]string{}}
	for key, values := range h {
		key = strings.ToLower(key)
		p.values[key] = append(p.values[key], values...)
	}
	out := Headers{
		ID:        p.matching(headerID, wire.IsACEID),
		Timestamp: p.integer(headerTimestamp),
		Seq:       p.integer(headerSeq),
		Audience: p.matching(headerAudience, func(s string) bool {
			return utf8.RuneCountInString(s) <= maxAudienceLength
		}),
		Nonce:     p.matching(headerNonce, wire.IsHexDigest),
		Signature: p.signature(),
	}
	if p.err != nil {
		return Headers{}, p.err
	}
	return out, nil
}

// headerParser keeps the first failure.
type headerParser struct {
	values map[string][]string // by lower-case name
	err    error
}

func (p *headerParser) fail(name, rule string) {
	if p.err == nil {
		p.err = fault.New(fault.InvalidArgument, "header %s: %s", name, rule)
	}
}

func (p *headerParser) value(name string) string {
	values := p.values[strings.ToLower(name)]
	if len(values) != 1 {
		p.fail(name, "not present exactly once")
		return ""
	}
	return values[0]
}

func (p *headerParser) matching(name string, is func(string) bool) string {
	s := p.value(name)
	if !is(s) {
		p.fail(name, "malformed")
	}
	return s
}

// integer reads ^(0|[1-9][0-9]{0,15})$ of at most 2^53-1.
func (p *headerParser) integer(name string) int64 {
	n, ok := parseDecimal(p.value(name))
	if !ok {
		p.fail(name, "not a decimal wire integer")
	}
	return n
}

func parseDecimal(s string) (int64, bool) {
	if s == "" || len(s) > maxIntegerDigits || s[0] == '0' && s != "0" {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= wire.MaxInt
}

func (p *headerParser) signature() []byte {
	s := p.value(headerSignature)
	if len(s) != wire.Base64Len(wire.SignatureBytes) {
		p.fail(headerSignature, "not 4412 characters")
		return nil
	}
	b, err := wire.DecodeBase64(s)
	if err != nil || len(b) != wire.SignatureBytes {
		p.fail(headerSignature, "not canonical base64 of 3309 bytes")
	}
	return b
}

// AuthPayload is encodePayload(audience, nonce, actionPayload), what a
// header-authenticated request signs (07#authentication).
func AuthPayload(audience, nonce string, actionPayload []byte) []byte {
	return wire.AppendField(wire.EncodePayload(audience, nonce), actionPayload)
}

// Verify checks a request for action at now against the caller's registered log
// (nil: none), in the order of 07#authentication. The arguments behind
// actionPayload have been validated before. The relay then reserves the nonce:
// a failed check consumes none.
//
// Codes: invalid_argument (clock), not_registered, stale_seq, future_seq,
// invalid_signature, stale_timestamp, stale_peer_binding.
func (h Headers) Verify(action string, actionPayload []byte, audience string, registered *kel.State, now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if registered == nil || registered.ACEID() != h.ID {
		return fault.New(fault.NotRegistered, "the caller is not registered here")
	}
	delegated := registered.Delegated()
	switch {
	case delegated == nil:
		return fault.New(fault.StalePeerBinding, "the registered kel delegates no signing key")
	case h.Seq < delegated.Seq:
		return fault.New(StaleSeq, "seq %d: the registered delegation is %d", h.Seq, delegated.Seq)
	case h.Seq > delegated.Seq:
		return fault.New(FutureSeq, "seq %d: the registered delegation is %d", h.Seq, delegated.Seq)
	case h.Audience != audience:
		return fault.New(fault.InvalidSignature, "the audience is not this relay")
	case !fresh(h.Timestamp, now):
		return errNotFresh(h.Timestamp)
	case !registered.Usable(now):
		return fault.New(fault.StalePeerBinding, "the registered kel is not usable now")
	}
	signature := wire.Signature{Seq: h.Seq, Value: h.Signature}
	payload := AuthPayload(audience, h.Nonce, actionPayload)
	return registered.VerifySignature(action, signature, h.Timestamp, now, payload, fault.InvalidSignature)
}

// fresh is |now - timestamp| <= TIMESTAMP_WINDOW_SECONDS for wire integers.
func fresh(timestamp, now int64) bool {
	return now-timestamp <= wire.TimestampWindowSeconds && timestamp-now <= wire.TimestampWindowSeconds
}

func errNotFresh(timestamp int64) error {
	return fault.New(fault.StaleTimestamp, "timestamp %d is more than %d seconds from now", timestamp, wire.TimestampWindowSeconds)
}

// SignHeaders signs a request for action to the relay named by audience, at the
// identity's signing time. The nonce has to be fresh for every HTTP attempt:
// suite.NewNonce makes one. Codes: invalid_argument (clock),
// identity_unavailable.
func SignHeaders(id *kel.Identity, action, audience, nonce string, actionPayload []byte, now int64) (Headers, error) {
	if err := wire.CheckTime(now); err != nil {
		return Headers{}, fault.Wrap(fault.InvalidArgument, err)
	}
	t := id.SigningTime(now)
	sig, err := id.Sign(action, t, AuthPayload(audience, nonce, actionPayload))
	if err != nil {
		return Headers{}, err
	}
	return Headers{ID: id.ACEID(), Timestamp: t, Seq: sig.Seq, Audience: audience, Nonce: nonce, Signature: sig.Value}, nil
}

// Apply sets the six headers in h, replacing earlier ones.
func (h Headers) Apply(header map[string][]string) {
	header[headerID] = []string{h.ID}
	header[headerTimestamp] = []string{wire.Decimal(h.Timestamp)}
	header[headerSeq] = []string{wire.Decimal(h.Seq)}
	header[headerAudience] = []string{h.Audience}
	header[headerNonce] = []string{h.Nonce}
	header[headerSignature] = []string{wire.EncodeBase64(h.Signature)}
}
