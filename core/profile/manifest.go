package profile

import (
	"fmt"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	// maxManifestText bounds the text of a manifest before it is parsed, in
	// bytes. Only the canonical form has a bound in 08#manifest-format; the
	// rest is room for blanks and escapes.
	maxManifestText = 16 * wire.MaxManifestBytes

	// maxManifestDepth bounds the nesting of that text. 08 bounds the schema
	// nodes but not the members of an enum inside them, so this bound refuses
	// only what the size refuses anyway: a level costs two canonical bytes.
	maxManifestDepth = wire.MaxManifestBytes / 2

	maxMessages = 32
)

// Manifest is a parsed profile manifest (08#manifest-format). It is immutable.
type Manifest struct {
	ID       string
	Messages []*Message
	Digest   string // profile digest
	raw      []byte
}

// Raw returns the canonical JSON of m, at most 65536 bytes. The caller must
// not change it.
func (m *Manifest) Raw() []byte { return m.raw }

// Message is one message type of a manifest.
type Message struct {
	Type    string
	Digest  string // message digest, the schemaDigest of private content
	Profile string // ID of the manifest
	Schema  *Schema
}

// ParseManifest reads a third-party manifest (08#manifest-format), which uses
// no identifier with the reserved prefix ace:. Code: invalid_argument.
func ParseManifest(data []byte) (*Manifest, error) {
	m, err := parseManifest(data)
	if err == nil {
		err = m.checkUnreserved()
	}
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	return m, nil
}

// checkUnreserved reports an identifier of m that only the specification may
// define (08#manifest-format).
func (m *Manifest) checkUnreserved() error {
	if strings.HasPrefix(m.ID, reservedPrefix) {
		return fmt.Errorf("manifest.id: %q has the reserved prefix %s", m.ID, reservedPrefix)
	}
	for i, msg := range m.Messages {
		if strings.HasPrefix(msg.Type, reservedPrefix) {
			return fmt.Errorf("manifest.messages[%d].type: %q has the reserved prefix %s", i, msg.Type, reservedPrefix)
		}
	}
	return nil
}

func parseManifest(data []byte) (*Manifest, error) {
	if len(data) > maxManifestText {
		return nil, fmt.Errorf("manifest: text of %d bytes, more than %d", len(data), maxManifestText)
	}
	v, err := wire.Parse(data, maxManifestDepth)
	if err != nil {
		return nil, err
	}
	raw := v.Canonical()
	if len(raw) > wire.MaxManifestBytes {
		return nil, fmt.Errorf("manifest: canonical size of %d bytes, more than %d", len(raw), wire.MaxManifestBytes)
	}
	r := wire.NewReader(v, "manifest")
	m := &Manifest{ID: r.Matching("id", "namespaced identifier", wire.IsNamespacedID), Digest: suite.Hex256(raw), raw: raw}
	messages := r.Array("messages", 1, maxMessages)
	for i, item := range messages {
		m.Messages = append(m.Messages, readMessage(r.Element("messages", i, item), m.ID))
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return m, m.parseSchemas(messages)
}

// readMessage reads the closed object {type, schema}; the schema is left for
// parseSchemas.
func readMessage(r *wire.Reader, id string) *Message {
	msg := &Message{Type: r.Matching("type", "namespaced identifier", wire.IsNamespacedID), Profile: id}
	r.Value("schema")
	_ = r.Close() // the error is the manifest's as well
	return msg
}

func (m *Manifest) parseSchemas(messages []wire.Value) error {
	types := map[string]bool{}
	for i, msg := range m.Messages {
		if types[msg.Type] {
			return fmt.Errorf("manifest.messages[%d].type: %q is there twice", i, msg.Type)
		}
		types[msg.Type] = true
		v, _ := messages[i].Get("schema")
		schema, err := parseNode(v, fmt.Sprintf("manifest.messages[%d].schema", i), 0)
		if err != nil {
			return err
		}
		if schema.kind != wire.Object {
			return fmt.Errorf("manifest.messages[%d].schema.type: not %q", i, "object")
		}
		msg.Schema, msg.Digest = schema, messageDigest(msg.Type, v)
	}
	return nil
}
