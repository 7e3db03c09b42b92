package kel

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Event types of 01#key-event-log.
const (
	Inception  = "icp"
	Rotation   = "rot"
	Delegation = "dlg"
)

// Event is one verified event of a log.
type Event struct {
	Type     string // Inception, Rotation or Delegation
	Seq      int64
	TS       int64  // Unix seconds
	Prev     string // hash of the event before; empty for icp
	Key      []byte // 1952 bytes: the root of icp and rot, the signing key of dlg
	Next     string // commitment to the next root; empty for dlg
	NotAfter int64  // Unix seconds; 0 when absent, since a present one is greater than TS
	Hash     string // hex SHA-256 of the canonical bytes
}

// entry is an event as a log carries it: of good shape, not yet verified.
type entry struct {
	Event
	scheme  string // of Key
	bounded bool   // notAfter is present, and may be 0 until rule 4 has refused it
	sig     rootSignature
}

// rootSignature is the sig of an event: the closed object {scheme, value}.
type rootSignature struct {
	scheme string
	value  []byte // 3309 bytes
}

// EventBytes returns the canonical bytes of one event, signed or not
// (01#key-event-log). It checks the shape of the event alone. Code: invalid_kel.
func EventBytes(event wire.Value) ([]byte, error) {
	r := wire.NewReader(event, "event")
	e := readUnsigned(r)
	if r.Has("sig") {
		readSignature(r)
	}
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidKEL, err)
	}
	return e.appendCanonical(nil), nil
}

// readEntry reads a signed event. Errors start with the member that is wrong,
// as in ".root.scheme: missing".
func readEntry(v wire.Value) (entry, error) {
	r := wire.NewReader(v, "")
	e := readUnsigned(r)
	e.sig = readSignature(r)
	return e, r.Close()
}

// readUnsigned reads every member but sig. Keys may have any scheme and length
// here: rules 2 to 4 of 01#verifier-rules judge them at the event's own turn.
func readUnsigned(r *wire.Reader) entry {
	var e entry
	e.Type = eventType(r)
	e.Seq, e.TS = r.Int("seq"), r.Int("ts")
	if e.Type != Inception {
		e.Prev = strings.Clone(r.HexDigest("prev"))
	}
	if e.Type != Delegation {
		e.readKey(r.Object("root"))
		e.Next = strings.Clone(r.HexDigest("next"))
		return e
	}
	e.readKey(r.Object("key"))
	if e.bounded = r.Has("notAfter"); e.bounded {
		e.NotAfter = r.Int("notAfter")
	}
	return e
}

func eventType(r *wire.Reader) string {
	switch t := r.String("t"); t {
	case Inception:
		return Inception
	case Rotation:
		return Rotation
	case Delegation:
		return Delegation
	default:
		r.FailMember("t", "is %.20q, which is no event type", t)
		return t
	}
}

func (e *entry) readKey(r *wire.Reader) {
	e.scheme = r.String("scheme")
	// No length is a matter of shape; no carrier of a log is longer than this.
	e.Key = r.Base64("publicKey", 0, wire.MaxPublishedAgentBytes)
	_ = r.Close() // the error is the event's as well
}

func readSignature(r *wire.Reader) rootSignature {
	o := r.Object("sig")
	sig := rootSignature{
		scheme: o.String("scheme"),
		value:  o.Base64("value", wire.SignatureBytes, wire.SignatureBytes),
	}
	_ = o.Close() // the error is the event's as well
	return sig
}

// appendCanonical appends the canonical bytes (01#key-event-log): prev as its
// 64 characters, keys and digests decoded.
func (e *entry) appendCanonical(b []byte) []byte {
	b = slices.Grow(b, len(e.scheme)+len(e.Key)+192)
	b = wire.AppendField(b, e.Type)
	b = wire.AppendField(b, wire.Decimal(e.Seq))
	b = wire.AppendField(b, wire.Decimal(e.TS))
	if e.Type != Inception {
		b = wire.AppendField(b, e.Prev)
	}
	b = wire.AppendField(b, e.scheme)
	b = wire.AppendField(b, e.Key)
	if e.Type == Delegation {
		return wire.AppendField(b, e.notAfterOrEmpty())
	}
	next, _ := hex.DecodeString(e.Next) // a hex digest by shape
	return wire.AppendField(b, next)
}

func (e *entry) notAfterOrEmpty() string {
	if !e.bounded {
		return ""
	}
	return wire.Decimal(e.NotAfter)
}

// value returns the event as JSON.
func (e *entry) value() wire.Value {
	members := []wire.Member{
		wire.M("t", wire.NewString(e.Type)),
		wire.M("seq", wire.NewInt(e.Seq)),
		wire.M("ts", wire.NewInt(e.TS)),
		wire.M("sig", wire.NewObject(
			wire.M("scheme", wire.NewString(e.sig.scheme)),
			wire.M("value", wire.NewString(wire.EncodeBase64(e.sig.value))))),
	}
	if e.Type != Inception {
		members = append(members, wire.M("prev", wire.NewString(e.Prev)))
	}
	key := wire.NewObject(
		wire.M("scheme", wire.NewString(e.scheme)),
		wire.M("publicKey", wire.NewString(wire.EncodeBase64(e.Key))))
	if e.Type != Delegation {
		return wire.NewObject(append(members, wire.M("root", key), wire.M("next", wire.NewString(e.Next)))...)
	}
	members = append(members, wire.M("key", key))
	if e.bounded {
		members = append(members, wire.M("notAfter", wire.NewInt(e.NotAfter)))
	}
	return wire.NewObject(members...)
}

// Commitment returns the hex commitment to a root (01#key-event-log):
// SHA-256(UTF-8(scheme) ‖ 0x00 ‖ publicKey).
func Commitment(scheme string, publicKey []byte) string {
	b := make([]byte, 0, len(scheme)+1+len(publicKey))
	b = append(b, scheme...)
	b = append(b, 0)
	return suite.Hex256(append(b, publicKey...))
}
