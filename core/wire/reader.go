package wire

import (
	"fmt"
)

// Reader reads the members of one closed object. Its errors are sticky: read
// every member, then call [Reader.Close], which returns the first failure with
// the path of the member, or names a member that was not asked for.
//
// Readers made from one another share one error.
type Reader struct {
	path    string
	members []Member
	seen    uint64
	err     *error
}

// NewReader starts reading v, which has to be an object. The path names it in
// errors, as in "packet".
func NewReader(v Value, path string) *Reader {
	r := &Reader{path: path, err: new(error)}
	r.open(v)
	return r
}

func (r *Reader) open(v Value) {
	if v.kind != Object {
		r.Fail("is %s, not an object", v.kind)
		return
	}
	r.members = v.members
	if len(v.members) > 64 {
		r.Fail("has more members than any closed object")
	}
}

// Fail records a failure of this object, unless there is an earlier one.
func (r *Reader) Fail(format string, args ...any) {
	if *r.err == nil {
		*r.err = fmt.Errorf("%s: %s", r.path, fmt.Sprintf(format, args...))
	}
}

// FailMember records a failure of the named member.
func (r *Reader) FailMember(name, format string, args ...any) {
	if *r.err == nil {
		*r.err = fmt.Errorf("%s.%s: %s", r.path, name, fmt.Sprintf(format, args...))
	}
}

// Err returns the first failure so far.
func (r *Reader) Err() error { return *r.err }

// Close returns the first failure, and fails for a member that was never read:
// the object is closed.
func (r *Reader) Close() error {
	for i, m := range r.members {
		if r.seen&(1<<i) == 0 {
			r.Fail("unknown member %.40q", m.Key)
			break
		}
	}
	return *r.err
}

// Optional returns the named member if it is present.
func (r *Reader) Optional(name string) (Value, bool) {
	for i, m := range r.members {
		if m.Key == name && i < 64 {
			r.seen |= 1 << i
			return m.Value, true
		}
	}
	return Value{}, false
}

// Has reports whether the named member is present, without reading it.
func (r *Reader) Has(name string) bool {
	for _, m := range r.members {
		if m.Key == name {
			return true
		}
	}
	return false
}

// Value returns the named member, which has to be present.
func (r *Reader) Value(name string) Value {
	v, ok := r.Optional(name)
	if !ok {
		r.FailMember(name, "missing")
	}
	return v
}

// String returns the named member, which has to be a string.
func (r *Reader) String(name string) string {
	v := r.Value(name)
	if v.kind != String {
		r.FailMember(name, "is %s, not a string", v.kind)
	}
	return v.str
}

// Bool returns the named member, which has to be a boolean.
func (r *Reader) Bool(name string) bool {
	v := r.Value(name)
	if v.kind != Bool {
		r.FailMember(name, "is %s, not a boolean", v.kind)
	}
	return v.truth
}

// Int returns the named member, which has to be a wire integer
// (02#wire-integers).
func (r *Reader) Int(name string) int64 {
	n, ok := r.Value(name).AsInt()
	if !ok {
		r.FailMember(name, "not a wire integer")
	}
	return n
}

// Matching returns the named member, which has to be a string of the grammar
// that is tests, called what in the error.
func (r *Reader) Matching(name, what string, is func(string) bool) string {
	s := r.String(name)
	if !is(s) {
		r.FailMember(name, "is no %s", what)
	}
	return s
}

// ACEID returns the named member, which has to be an ACE ID.
func (r *Reader) ACEID(name string) string { return r.Matching(name, "ACE ID", IsACEID) }

// HexDigest returns the named member, which has to be a hex digest.
func (r *Reader) HexDigest(name string) string {
	return r.Matching(name, "64-character hex digest", IsHexDigest)
}

// Base64 returns the decoded bytes of the named member, which has to be
// canonical Base64 of low to high decoded bytes (02#base64).
func (r *Reader) Base64(name string, low, high int) []byte {
	s := r.String(name)
	if *r.err != nil {
		return nil
	}
	if len(s) > Base64Len(high) {
		r.FailMember(name, "more than %d decoded bytes", high)
		return nil
	}
	b, err := DecodeBase64(s)
	if err != nil {
		r.FailMember(name, "%v", err)
		return nil
	}
	if len(b) < low || len(b) > high {
		r.FailMember(name, "%d decoded bytes, outside [%d, %d]", len(b), low, high)
		return nil
	}
	return b
}

// Array returns the elements of the named member, which has to be an array of
// low to high elements.
func (r *Reader) Array(name string, low, high int) []Value {
	v := r.Value(name)
	if v.kind != Array {
		r.FailMember(name, "is %s, not an array", v.kind)
		return nil
	}
	if len(v.items) < low || len(v.items) > high {
		r.FailMember(name, "%d elements, outside [%d, %d]", len(v.items), low, high)
		return nil
	}
	return v.items
}

// Object starts reading the named member, which has to be an object. The
// caller has to Close it.
func (r *Reader) Object(name string) *Reader {
	return r.child(r.path+"."+name, r.Value(name))
}

// Element starts reading element i of the named array member.
func (r *Reader) Element(name string, i int, v Value) *Reader {
	return r.child(fmt.Sprintf("%s.%s[%d]", r.path, name, i), v)
}

func (r *Reader) child(path string, v Value) *Reader {
	c := &Reader{path: path, err: r.err}
	c.open(v)
	return c
}
