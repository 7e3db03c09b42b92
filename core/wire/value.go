package wire

import (
	"slices"
	"strings"
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds of a JSON value. The zero Value is null.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String names the kind as error messages do, with its article.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Value is a parsed JSON value. It is immutable once made: values share their
// parts freely, and strings share the memory of the text they were parsed from.
type Value struct {
	kind    Kind
	truth   bool
	num     float64
	str     string
	items   []Value
	members []Member
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value Value
}

// NewBool returns a JSON boolean.
func NewBool(b bool) Value { return Value{kind: Bool, truth: b} }

// NewString returns a JSON string. The text has to be valid UTF-8.
func NewString(s string) Value { return Value{kind: String, str: s} }

// NewInt returns a JSON number holding an integer within ±(2^53-1).
func NewInt(n int64) Value { return Value{kind: Number, num: float64(n)} }

// NewArray returns a JSON array of the given elements.
func NewArray(items ...Value) Value { return Value{kind: Array, items: items} }

// NewObject returns a JSON object with the given members in any order. Keys
// have to be distinct: NewObject is for objects the program makes itself.
func NewObject(members ...Member) Value {
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(members); i++ {
		if members[i].Key == members[i-1].Key {
			panic("ace: internal error: duplicate member " + members[i].Key)
		}
	}
	return Value{kind: Object, members: members}
}

// M is shorthand for a Member.
func M(key string, v Value) Member { return Member{Key: key, Value: v} }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// AsBool returns the truth value of v and whether v is a boolean.
func (v Value) AsBool() (bool, bool) { return v.truth, v.kind == Bool }

// AsString returns the text of v and whether v is a string.
func (v Value) AsString() (string, bool) { return v.str, v.kind == String }

// Items returns the elements of an array, and nil for any other kind. The
// caller must not change them.
func (v Value) Items() []Value { return v.items }

// Members returns the members of an object in canonical order, and nil for any
// other kind. The caller must not change them.
func (v Value) Members() []Member { return v.members }

// Get returns the member of an object with the given key, and whether it is
// present.
func (v Value) Get(key string) (Value, bool) {
	i, ok := slices.BinarySearchFunc(v.members, key, func(m Member, k string) int { return strings.Compare(m.Key, k) })
	if !ok {
		return Value{}, false
	}
	return v.members[i].Value, true
}

// Without returns the object v without the named member: the claims of a
// signed object are it without its outer signature (02#canonical-json).
func (v Value) Without(key string) Value {
	out := Value{kind: v.kind, members: make([]Member, 0, len(v.members))}
	for _, m := range v.members {
		if m.Key != key {
			out.members = append(out.members, m)
		}
	}
	return out
}

// With returns the object v with the named member set.
func (v Value) With(key string, member Value) Value {
	members := append(slices.Clone(v.Without(key).members), M(key, member))
	return NewObject(members...)
}

// WithinDepth reports whether no object or array in v is at a depth greater
// than n, v itself being at depth 0 (02#json-values).
func (v Value) WithinDepth(n int) bool {
	if v.kind != Array && v.kind != Object {
		return true
	}
	if n < 0 {
		return false
	}
	for _, item := range v.items {
		if !item.WithinDepth(n - 1) {
			return false
		}
	}
	for _, m := range v.members {
		if !m.Value.WithinDepth(n - 1) {
			return false
		}
	}
	return true
}

// Equal reports whether v and w have the same canonical JSON.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case Bool:
		return v.truth == w.truth
	case Number:
		return v.num == w.num
	case String:
		return v.str == w.str
	case Array:
		return slices.EqualFunc(v.items, w.items, Value.Equal)
	case Object:
		return slices.EqualFunc(v.members, w.members, func(a, b Member) bool {
			return a.Key == b.Key && a.Value.Equal(b.Value)
		})
	}
	return true
}
