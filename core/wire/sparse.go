package wire

import "slices"

// Keep says what [ParseSparse] keeps of a value.
type Keep struct {
	// Depth is the deepest level whose objects keep members; the value itself
	// is at depth 0.
	Depth int
	// Members is how many members an object keeps at most: the first ones of
	// the text.
	Members int
	// Name is a member that an object keeps on top of those.
	Name string
}

var keepNothing = Keep{Depth: -1}

// ParseSparse is [Parse] of a text that ought to be a closed object without
// arrays. It accepts and refuses the same texts, but of a value that is wider or
// deeper than keep it leaves out the rest, and of every array all elements.
//
// It is for texts from strangers. A tree takes up to 45 times the memory of its
// text, and this one a small multiple whatever the text is. Where keep holds all
// of the valid values, and for objects one member more than a valid one has, the
// decoder of the object comes to the same end with either tree: what is left
// out follows on an unknown member or a wrong kind, which stays.
func ParseSparse(data []byte, maxDepth int, keep Keep) (Value, error) {
	p, err := newParser(data, maxDepth)
	if err != nil {
		return Value{}, err
	}
	return p.finish(p.sparse(0, keep))
}

func (p *parser) sparse(depth int, keep Keep) Value {
	switch p.peek() {
	case '{':
		return p.sparseObject(depth, keep)
	case '[':
		p.skipElements(depth, keep)
		return Value{kind: Array}
	}
	return p.value(depth)
}

func (p *parser) skipElements(depth int, keep Keep) {
	if !p.enter(depth) {
		return
	}
	if p.peek() == ']' {
		p.at++
		return
	}
	for {
		p.sparse(depth+1, keep)
		if p.err != nil || !p.more(']') {
			return
		}
	}
}

// sparseObject remembers every key, so that a duplicate among members that are
// left out is still one.
func (p *parser) sparseObject(depth int, keep Keep) Value {
	v := Value{kind: Object}
	start := p.at
	if !p.enter(depth) {
		return v
	}
	if p.peek() == '}' {
		p.at++
		return v
	}
	var keys []string
	for {
		key, ok := p.memberName()
		if !ok {
			return v
		}
		if depth <= keep.Depth && (len(v.members) < keep.Members || key == keep.Name) {
			v.members = append(v.members, Member{key, p.sparse(depth+1, keep)})
		} else {
			p.sparse(depth+1, keepNothing)
		}
		keys = withRoom(p, keys)
		keys = append(keys, key)
		if p.err != nil || !p.more('}') {
			break
		}
	}
	p.checkDistinct(keys, start)
	if p.err == nil {
		p.sortMembers(v.members, start)
	}
	return v
}

func (p *parser) checkDistinct(keys []string, start int) {
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			p.duplicate(keys[i], start)
			return
		}
	}
}
