package profile

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/wire"
)

// Match reports why v does not match the schema (08#schema-dialect), or nil.
// The error is plain and names the place in v and the rule it breaks.
func (s *Schema) Match(v wire.Value) error {
	if f := s.match(v); f != nil {
		return fmt.Errorf("value%s: %s", f.path, f.rule)
	}
	return nil
}

// mismatch is a broken rule and the path to the value that breaks it. Paths
// are built on the way back, so that a value that matches costs none.
type mismatch struct{ path, rule string }

func broken(format string, args ...any) *mismatch {
	return &mismatch{rule: fmt.Sprintf(format, args...)}
}

func (f *mismatch) below(step string) *mismatch {
	return &mismatch{path: step + f.path, rule: f.rule}
}

// step writes a member name as a step of a path. Names come from outside.
func step(name string) string { return fmt.Sprintf("[%.40q]", name) }

func (s *Schema) match(v wire.Value) *mismatch {
	if f := s.matchType(v); f != nil {
		return f
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, v.Equal) {
		return broken("not one of the values of enum")
	}
	return nil
}

// matchType matches v with the node as if it had no enum.
func (s *Schema) matchType(v wire.Value) *mismatch {
	if v.Kind() != s.kind {
		return broken("is %s, not %s", v.Kind(), s.typeName())
	}
	switch s.kind {
	case wire.Object:
		return s.matchObject(v)
	case wire.Array:
		return s.matchArray(v)
	case wire.String:
		text, _ := v.AsString()
		if s.max != noBound && int64(utf8.RuneCountInString(text)) > s.max {
			return broken("longer than %d characters", s.max)
		}
	case wire.Number:
		if n, ok := v.AsSignedInt(); !ok || n < s.minimum || n > s.maximum {
			return broken("not an integer in [%d, %d]", s.minimum, s.maximum)
		}
	}
	return nil
}

func (s *Schema) typeName() string {
	if s.kind == wire.Number {
		return "an integer"
	}
	return s.kind.String()
}

func (s *Schema) matchObject(v wire.Value) *mismatch {
	for _, p := range s.properties {
		if _, ok := v.Get(p.name); p.required && !ok {
			return broken("lacks the required member %.40q", p.name)
		}
	}
	for _, m := range v.Members() {
		p := s.property(m.Key)
		if p == nil {
			if !s.open {
				return broken("unknown member %.40q", m.Key)
			}
			continue
		}
		if f := p.schema.match(m.Value); f != nil {
			return f.below(step(m.Key))
		}
	}
	return nil
}

func (s *Schema) matchArray(v wire.Value) *mismatch {
	if s.max != noBound && int64(len(v.Items())) > s.max {
		return broken("more than %d elements", s.max)
	}
	for i, item := range v.Items() {
		if f := s.items.match(item); f != nil {
			return f.below(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}
