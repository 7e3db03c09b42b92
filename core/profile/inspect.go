package profile

import "github.com/ace-toolkit/ace/core/wire"

// Kind returns the kind of the values that a schema matches; Number stands for
// integers.
func (s *Schema) Kind() wire.Kind { return s.kind }

// Properties returns the names that an object schema lists, sorted.
func (s *Schema) Properties() (names []string) {
	for _, p := range s.properties {
		names = append(names, p.name)
	}
	return names
}

// Property returns the schema of a listed member of an object schema.
func (s *Schema) Property(name string) (*Schema, bool) {
	if p := s.property(name); p != nil {
		return p.schema, true
	}
	return nil, false
}

// Open reports whether an object schema takes members that it does not list.
func (s *Schema) Open() bool { return s.open }
