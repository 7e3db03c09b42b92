package relayapi

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// The payloads of the header-authenticated actions (02#signing-actions). They
// encode; the Parse functions below validate. DELETE of a wake and unregister
// sign the empty payload, which is nil.

// ListenPayload is encodePayload(sinceOrDash).
func ListenPayload(since string) []byte { return wire.EncodePayload(since) }

// InboxPayload is encodePayload(sinceOrDash, decimal(limit)), with the limit in
// effect when the request names none.
func InboxPayload(since string, limit int64) []byte {
	return wire.EncodePayload(since, wire.Decimal(limit))
}

// AckPayload is encodePayload(through).
func AckPayload(through string) []byte { return wire.EncodePayload(through) }

// BlockPayload is encodePayload(peer, "block" or "unblock", decimal(revision)).
func BlockPayload(peer string, blocked bool, revision int64) []byte {
	verb := "unblock"
	if blocked {
		verb = "block"
	}
	return wire.EncodePayload(peer, verb, wire.Decimal(revision))
}

// WakePayload is encodePayload(gateway, token), the payload of PUT.
func WakePayload(gateway, token string) []byte { return wire.EncodePayload(gateway, token) }

// UnregisterPayload is the empty payload of unregister.
func UnregisterPayload() []byte { return nil }

// WakeDeletePayload is the empty payload of DELETE of a wake.
func WakeDeletePayload() []byte { return nil }

// parameter returns the only value of a query parameter and whether it is
// present. One given twice is refused: the two ends could read different ones.
func parameter(query map[string][]string, name string) (string, bool, error) {
	values := query[name]
	if len(values) > 1 {
		return "", false, fault.New(fault.InvalidArgument, "parameter %s: given more than once", name)
	}
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}

// ParseListen returns the since of GET /v1/listen, "-" when absent (07#listen).
// Code: invalid_argument.
func ParseListen(query map[string][]string) (since string, err error) {
	since, ok, err := parameter(query, "since")
	if err != nil || !ok {
		return Dash, err
	}
	if since != Dash && !wire.IsStreamID(since) {
		return "", fault.New(fault.InvalidArgument, "parameter since: not a stream ID or -")
	}
	return since, nil
}

// ParseInbox returns the since and the effective limit of GET /v1/inbox
// (07#inbox). Code: invalid_argument.
func ParseInbox(query map[string][]string) (since string, limit int64, err error) {
	if since, err = ParseListen(query); err != nil {
		return "", 0, err
	}
	limit, err = parseLimit(query)
	return since, limit, err
}

// parseLimit reads 1..MAX_INBOX_PAGE, by default the maximum.
func parseLimit(query map[string][]string) (int64, error) {
	s, ok, err := parameter(query, "limit")
	if err != nil || !ok {
		return wire.MaxInboxPage, err
	}
	n, ok := parseDecimal(s)
	if !ok || n < 1 || n > wire.MaxInboxPage {
		return 0, fault.New(fault.InvalidArgument, "parameter limit: not a number in 1..%d", wire.MaxInboxPage)
	}
	return n, nil
}

// ParseAck returns the through of POST /v1/inbox/ack (07#inbox).
// Code: invalid_argument.
func ParseAck(query map[string][]string) (through string, err error) {
	through, _, err = parameter(query, "through")
	if err != nil {
		return "", err
	}
	if !wire.IsStreamID(through) {
		return "", fault.New(fault.InvalidArgument, "parameter through: not a stream ID")
	}
	return through, nil
}

// Directory are the parameters of GET /v1/cards (07#descriptors-and-cards). An
// empty Tag, Profile or Cursor is an absent one.
type Directory struct {
	Tag     string // exact card tag
	Profile string // exact profile ID
	Cursor  string // opaque to clients
	Limit   int64  // 1..MAX_INBOX_PAGE
}

// ParseDirectory reads the parameters of GET /v1/cards. An empty filter is
// refused: no card has such a tag, and it is not an absent one. The cursor is
// the relay's own to judge. Code: invalid_argument.
func ParseDirectory(query map[string][]string) (Directory, error) {
	var d Directory
	for name, into := range map[string]*string{"tag": &d.Tag, "profile": &d.Profile, "cursor": &d.Cursor} {
		s, ok, err := parameter(query, name)
		if err != nil {
			return Directory{}, err
		}
		if ok && s == "" {
			return Directory{}, fault.New(fault.InvalidArgument, "parameter %s: empty", name)
		}
		*into = s
	}
	limit, err := parseLimit(query)
	d.Limit = limit
	return d, err
}

// Block is the body of POST /v1/blocks (07#blocks).
type Block struct {
	Peer     string
	Blocked  bool
	Revision int64
}

// ParseBlock reads the closed body of POST /v1/blocks sent by caller.
// Code: invalid_argument.
func ParseBlock(body wire.Value, caller string) (Block, error) {
	r := wire.NewReader(body, "block")
	b := Block{Peer: r.ACEID("peer"), Blocked: r.Bool("blocked"), Revision: r.Int("revision")}
	if b.Peer == caller {
		r.FailMember("peer", "is the caller")
	}
	return b, fault.Wrap(fault.InvalidArgument, r.Close())
}

// Body returns the JSON body of b.
func (b Block) Body() []byte {
	return wire.NewObject(
		wire.M("peer", wire.NewString(b.Peer)),
		wire.M("blocked", wire.NewBool(b.Blocked)),
		wire.M("revision", wire.NewInt(b.Revision)),
	).Canonical()
}

// Wake is the body of PUT /v1/wake (07#wake-hints). The token is a bearer
// capability: it is never logged.
type Wake struct {
	Gateway string
	Token   string
}

const (
	minTokenLength = 22
	maxTokenLength = 512
)

// ParseWake reads the closed body of PUT /v1/wake. Code: invalid_argument.
func ParseWake(body wire.Value, urls wire.URLPolicy) (Wake, error) {
	r := wire.NewReader(body, "wake")
	w := Wake{
		Gateway: r.Matching("gateway", "canonical relay URL", func(s string) bool { return wire.CheckRelayURL(s, urls) == nil }),
		Token:   r.Matching("token", "wake token", isWakeToken),
	}
	return w, fault.Wrap(fault.InvalidArgument, r.Close())
}

// NewWake makes a registration of gateway, which issued token, if a relay may
// take it. Code: invalid_argument.
func NewWake(gateway, token string, urls wire.URLPolicy) (Wake, error) {
	return ParseWake(Wake{gateway, token}.value(), urls)
}

func isWakeToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= minTokenLength && len(s) <= maxTokenLength
}

// Body returns the JSON body of w.
func (w Wake) Body() []byte { return w.value().Canonical() }

func (w Wake) value() wire.Value {
	return wire.NewObject(wire.M("gateway", wire.NewString(w.Gateway)), wire.M("token", wire.NewString(w.Token)))
}

// Send is the body of POST /v1/send (07#send). Permit is not present when the
// sender has none, which differs from a permit of null.
type Send struct {
	Packet    wire.Value
	Permit    wire.Value
	HasPermit bool
}

// ParseSend reads the closed body of POST /v1/send. Packet and permit may be
// any JSON: their own decoders judge them. Code: invalid_argument.
func ParseSend(body wire.Value) (Send, error) {
	r := wire.NewReader(body, "send")
	s := Send{Packet: r.Value("packet")}
	s.Permit, s.HasPermit = r.Optional("permit")
	return s, fault.Wrap(fault.InvalidArgument, r.Close())
}

// SendBody returns the body of POST /v1/send from the canonical JSON of a
// packet and of a permit (nil: none).
func SendBody(packet, permit []byte) []byte {
	body := make([]byte, 0, len(`{"packet":,"permit":}`)+len(packet)+len(permit))
	body = append(body, `{"packet":`...)
	body = append(body, packet...)
	if permit != nil {
		body = append(body, `,"permit":`...)
		body = append(body, permit...)
	}
	return append(body, '}')
}

// maxBodyDepth bounds the nesting of what ParseBody returns. A protocol object
// in a body that is nested too deep still is so within this bound.
const maxBodyDepth = wire.MaxJSONDepth + 2

// ParseBody parses the JSON body of a request. An object nested too deep is
// refused with its own validation error (02#json-values), and so it gets there,
// but without what would cost a deep stack. Code: invalid_argument.
func ParseBody(data []byte) (wire.Value, error) { return parseBody(data, wire.Parse) }

func parseBody(data []byte, parse func(text []byte, maxDepth int) (wire.Value, error)) (wire.Value, error) {
	v, err := parse(data, maxBodyDepth)
	if err != nil {
		if pruned := prune(data, maxBodyDepth); len(pruned) < len(data) {
			v, err = parse(pruned, maxBodyDepth)
		}
	}
	return v, fault.Wrap(fault.InvalidArgument, err)
}

// prune returns a JSON text with the objects and arrays at the given depth
// emptied.
func prune(text []byte, depth int) []byte {
	out := make([]byte, 0, len(text))
	quoted, open := false, 0
	for i := 0; i < len(text); i++ {
		c, inside := text[i], open > depth
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			if !inside {
				out = append(out, c)
			}
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			open++
		case c == ']' || c == '}':
			open--
			inside = open > depth
		}
		if !inside {
			out = append(out, c)
		}
	}
	return out
}
