package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/wire"
)

const (
	maxSchemaEdges = 8
	maxProperties  = 64
	maxEnum        = 64
	noBound        = -1
)

// Schema is a validated schema node (08#schema-dialect). It is immutable.
type Schema struct {
	value wire.Value
	kind  wire.Kind // Number stands for "integer"
	enum  []wire.Value

	properties []property // of an object, in the order of their names
	open       bool       // of an object: additionalProperties
	items      *Schema    // of an array
	max        int64      // maxItems or maxLength, or noBound

	minimum, maximum int64 // of an integer
}

type property struct {
	name     string
	required bool
	schema   *Schema
}

// ParseSchema validates a schema node as 08#schema-dialect defines it. The
// error is plain and names the place and the rule.
func ParseSchema(v wire.Value) (*Schema, error) { return parseNode(v, "schema", 0) }

// Value returns the JSON of the schema.
func (s *Schema) Value() wire.Value { return s.value }

// parseNode reads the node at the given number of edges below the root.
func parseNode(v wire.Value, path string, edges int) (*Schema, error) {
	if edges > maxSchemaEdges {
		return nil, fmt.Errorf("%s: nested more than %d edges below the root", path, maxSchemaEdges)
	}
	r := wire.NewReader(v, path)
	s := &Schema{value: v, max: noBound, minimum: -wire.MaxInt, maximum: wire.MaxInt}
	var err error
	switch name := r.String("type"); name {
	case "object":
		s.kind = wire.Object
		err = s.readObject(r, path, edges)
	case "array":
		s.kind = wire.Array
		s.max = readBound(r, "maxItems", 0, noBound)
		s.items, err = parseNode(r.Value("items"), path+".items", edges+1)
	case "string":
		s.kind = wire.String
		s.max = readBound(r, "maxLength", 0, noBound)
	case "integer":
		s.kind = wire.Number
		s.minimum = readBound(r, "minimum", -wire.MaxInt, -wire.MaxInt)
		s.maximum = readBound(r, "maximum", -wire.MaxInt, wire.MaxInt)
		if s.minimum > s.maximum {
			r.Fail("minimum is greater than maximum")
		}
	case "boolean":
		s.kind = wire.Bool
	case "null":
		s.kind = wire.Null
	default:
		r.FailMember("type", "%.40q is no type of the dialect", name)
	}
	// The reader names a missing keyword; the child could only call it a null.
	if err = cmp.Or(r.Err(), err); err != nil {
		return nil, err
	}
	s.readEnum(r)
	return s, r.Close()
}

// readBound reads an optional bound, an integer in [low, 2^53-1].
func readBound(r *wire.Reader, name string, low, absent int64) int64 {
	v, ok := r.Optional(name)
	if !ok {
		return absent
	}
	n, ok := v.AsSignedInt()
	if !ok || n < low {
		r.FailMember(name, "not an integer in [%d, 2^53-1]", low)
	}
	return n
}

func (s *Schema) readObject(r *wire.Reader, path string, edges int) error {
	s.open = r.Bool("additionalProperties")
	properties := r.Value("properties")
	if properties.Kind() != wire.Object {
		r.FailMember("properties", "is %s, not an object", properties.Kind())
	}
	if n := len(properties.Members()); n > maxProperties {
		r.FailMember("properties", "%d names, more than %d", n, maxProperties)
	}
	if r.Err() != nil {
		return nil // the caller's Close reports it
	}
	for _, m := range properties.Members() {
		node, err := parseNode(m.Value, path+".properties"+step(m.Key), edges+1)
		if err != nil {
			return err
		}
		s.properties = append(s.properties, property{name: m.Key, schema: node})
	}
	s.readRequired(r)
	return nil
}

func (s *Schema) readRequired(r *wire.Reader) {
	for i, item := range r.Array("required", 0, maxProperties) {
		name, isString := item.AsString()
		p := s.property(name)
		switch {
		case !isString:
			r.FailMember("required", "element %d is no string", i)
		case p == nil:
			r.FailMember("required", "%.40q is not in properties", name)
		case p.required:
			r.FailMember("required", "%.40q is there twice", name)
		default:
			p.required = true
		}
	}
}

// property returns the listed property of that name, or nil.
func (s *Schema) property(name string) *property {
	i, ok := slices.BinarySearchFunc(s.properties, name, func(p property, name string) int {
		return strings.Compare(p.name, name)
	})
	if !ok {
		return nil
	}
	return &s.properties[i]
}

// readEnum reads the optional enum, whose members match the node without it.
// 08 does not ask that they differ.
func (s *Schema) readEnum(r *wire.Reader) {
	if !r.Has("enum") {
		return
	}
	members := r.Array("enum", 1, maxEnum)
	if r.Err() != nil {
		return
	}
	for i, m := range members {
		if f := s.matchType(m); f != nil {
			r.FailMember("enum", "element %d%s: %s", i, f.path, f.rule)
			return
		}
	}
	s.enum = members
}
