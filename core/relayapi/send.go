package relayapi

import (
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/wire"
)

// SendRequest is the body of POST /v1/send as far as step 1 of 07#send decides
// about it: the packet decodes, its time and its permit are still to be judged.
type SendRequest struct {
	Packet    packet.Envelope
	HasPermit bool
	// Permit is the JSON text of whatever came as the permit: its canonical
	// JSON, or less than all of it when that cannot be a permit anyway. It is
	// to be verified, and not to be changed.
	Permit []byte
}

// DecodeSend reads the body of POST /v1/send, of which the caller has checked
// that it is no longer than MAX_SEND_BODY_BYTES, and decodes the packet in it
// (07#send step 1, 03#decoding).
//
// A body in the form of [SendBody], or with its two members the other way round,
// is read in one pass without a copy: what is returned shares memory with body,
// which must not change meanwhile. Any other takes a small multiple of its size.
//
// Codes: invalid_argument for a body that is not the closed {packet, permit?},
// unsupported_version, invalid_packet.
func DecodeSend(body []byte) (SendRequest, error) {
	if request, ok := scanSend(body); ok {
		return request, nil
	}
	value, err := parseBody(body, parseSendText)
	if err != nil {
		return SendRequest{}, err
	}
	send, err := ParseSend(value)
	if err != nil {
		return SendRequest{}, err
	}
	p, err := packet.DecodeValue(send.Packet)
	if err != nil {
		return SendRequest{}, err
	}
	request := SendRequest{Packet: p.Envelope(), HasPermit: send.HasPermit}
	if send.HasPermit {
		request.Permit = send.Permit.Canonical()
	}
	return request, nil
}

// sendShape holds every valid body of POST /v1/send. There is no array in it,
// the objects at depth 2 are the last (encryption and the signatures), and a
// packet has the most members, seven: an object that loses one keeps an unknown
// one. The version of a packet decides about its code, wherever it stands.
var sendShape = wire.Keep{Depth: 2, Members: 8, Name: "ace"}

func parseSendText(text []byte, maxDepth int) (wire.Value, error) {
	return wire.ParseSparse(text, maxDepth, sendShape)
}

// scanSend reads a body whose parts are canonical. It refuses every other one
// and says nothing about it.
func scanSend(body []byte) (SendRequest, bool) {
	s := sendScanner{rest: body}
	switch {
	case s.next(`{"packet":`):
		s.packet()
		if s.next(`,"permit":`) {
			s.permit()
		}
	case s.next(`{"permit":`):
		s.permit()
		if !s.next(`,"packet":`) {
			return SendRequest{}, false
		}
		s.packet()
	}
	return s.request, !s.failed && s.request.Packet.Raw != nil && string(s.rest) == "}"
}

type sendScanner struct {
	rest    []byte
	failed  bool
	request SendRequest
}

// next reads piece if it comes next.
func (s *sendScanner) next(piece string) bool {
	if len(s.rest) < len(piece) || string(s.rest[:len(piece)]) != piece {
		return false
	}
	s.rest = s.rest[len(piece):]
	return true
}

func (s *sendScanner) packet() {
	envelope, rest, ok := packet.CutEnvelope(s.rest)
	s.request.Packet, s.rest = envelope, rest
	s.failed = s.failed || !ok
}

// permit reads what has the form of a permit (05#delivery-permits). Its values
// need not be right, only canonical: they are judged at step 4 of 07#send.
func (s *sendScanner) permit() {
	scan := wire.NewScanner(s.rest)
	scan.Int(`{"expiresAt":`)
	scan.Int(`,"issuedAt":`)
	scan.Plain(`,"issuer":"`)
	scan.Plain(`","signature":{"scheme":"`)
	scan.Int(`","seq":`)
	scan.Plain(`,"value":"`)
	scan.Plain(`"},"subject":"`)
	scan.Skip(`"}`)
	rest, ok := scan.Rest()
	if !ok {
		s.failed = true
		return
	}
	end := len(s.rest) - len(rest)
	s.request.HasPermit, s.request.Permit = true, s.rest[:end:end]
	s.rest = rest
}
