package packet

import (
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Content is private content (03#private-content). Type and body are not yet
// held against an installed schema.
type Content struct {
	Type         string
	SchemaDigest string     // message digest of Type, 64 hex characters
	ThreadID     string     // "" when absent
	Body         wire.Value // a JSON object
	Admission    *Admission // nil when absent
	Prekey       []byte     // 1216 bytes: the peer prekey that the sender offers
}

// Admission is the recovery data of an Outbox retry: three objects that
// 05#admission-recovery gives a meaning.
type Admission struct {
	Proof, Permit, Source wire.Value
}

// ParseContent reads a decrypted plaintext. A text that is not in canonical form
// is accepted. Code: invalid_body, for every failure.
//
// When it fails, the Content is nil or, if the text is an object with a
// well-formed prekey, one in which only Prekey is set: the rules of peer prekeys
// apply to a packet that opened, whatever becomes of its content
// (06#receive-pipeline).
func ParseContent(plaintext []byte) (*Content, error) {
	if len(plaintext) > wire.MaxPlaintextBytes {
		return nil, errTooLarge(len(plaintext))
	}
	v, err := wire.Parse(plaintext, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidBody, err, "content")
	}
	return readContent(v)
}

// ParseContentValue is ParseContent for content that is parsed already.
func ParseContentValue(v wire.Value) (*Content, error) {
	if err := checkBounds(v, v.Canonical()); err != nil {
		return salvage(v), err
	}
	return readContent(v)
}

func readContent(v wire.Value) (*Content, error) {
	r := wire.NewReader(v, "content")
	c := &Content{
		Type:         r.Matching("type", "namespaced identifier", wire.IsNamespacedID),
		SchemaDigest: r.HexDigest("schemaDigest"),
		Body:         object(r, "body"),
		Prekey:       r.Base64("prekey", suite.PrekeyBytes, suite.PrekeyBytes),
	}
	if r.Has("threadId") {
		c.ThreadID = r.Matching("threadId", "thread ID", wire.IsThreadID)
	}
	if r.Has("admission") {
		a := r.Object("admission")
		c.Admission = &Admission{Proof: object(a, "proof"), Permit: object(a, "permit"), Source: object(a, "source")}
		_ = a.Close() // the error is r's as well
		if isCore(c.Type) {
			r.FailMember("admission", "not allowed on a receipt or contact packet")
		}
	}
	if err := r.Close(); err != nil {
		return salvage(v), fault.Wrap(fault.InvalidBody, err)
	}
	return c, nil
}

// isCore reports whether a message type is one of the core profile, whose
// packets are never retried and so never carry admission (03#private-content).
func isCore(messageType string) bool {
	return messageType == profile.ReceiptType || messageType == profile.ContactType
}

func object(r *wire.Reader, name string) wire.Value {
	v := r.Value(name)
	if v.Kind() != wire.Object {
		r.FailMember(name, "is %s, not an object", v.Kind())
	}
	return v
}

// salvage returns the offered prekey of content that is otherwise malformed, or
// nil.
func salvage(v wire.Value) *Content {
	r := wire.NewReader(v, "content")
	prekey := r.Base64("prekey", suite.PrekeyBytes, suite.PrekeyBytes)
	if r.Err() != nil {
		return nil
	}
	return &Content{Prekey: prekey}
}

func checkBounds(v wire.Value, canonical []byte) error {
	if !v.WithinDepth(wire.MaxJSONDepth) {
		return fault.New(fault.InvalidBody, "content: nested deeper than %d", wire.MaxJSONDepth)
	}
	if len(canonical) > wire.MaxPlaintextBytes {
		return errTooLarge(len(canonical))
	}
	return nil
}

func errTooLarge(n int) error {
	return fault.New(fault.InvalidBody, "content: %d bytes, more than %d", n, wire.MaxPlaintextBytes)
}

// Value returns the content as JSON.
func (c *Content) Value() wire.Value {
	members := []wire.Member{
		wire.M("type", wire.NewString(c.Type)),
		wire.M("schemaDigest", wire.NewString(c.SchemaDigest)),
		wire.M("body", c.Body),
		wire.M("prekey", wire.NewString(wire.EncodeBase64(c.Prekey))),
	}
	if c.ThreadID != "" {
		members = append(members, wire.M("threadId", wire.NewString(c.ThreadID)))
	}
	if a := c.Admission; a != nil {
		members = append(members, wire.M("admission", wire.NewObject(
			wire.M("proof", a.Proof), wire.M("permit", a.Permit), wire.M("source", a.Source))))
	}
	return wire.NewObject(members...)
}

// Canonical returns the plaintext to seal. Code: invalid_body, for content that
// no receiver would accept; a sender refuses larger content before encrypting
// (03#private-content).
func (c *Content) Canonical() ([]byte, error) {
	v := c.Value()
	plaintext := v.Canonical()
	if err := checkBounds(v, plaintext); err != nil {
		return nil, err
	}
	if !utf8.Valid(plaintext) {
		return nil, fault.New(fault.InvalidBody, "content: text that is not UTF-8")
	}
	if _, err := readContent(v); err != nil {
		return nil, err
	}
	return plaintext, nil
}
