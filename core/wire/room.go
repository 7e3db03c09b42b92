package wire

// manyElements is the length from which a list gets its final room at once. It
// is large, so that lists nested in one another cannot have the text looked
// through very often.
const manyElements = 1 << 14

// withRoom returns the list with room for another element. A hostile text can
// be one list of millions of short values, and growing it step by step would
// take several times the memory of its elements.
func withRoom[E any](p *parser, list []E) []E {
	if len(list) < manyElements || len(list) < cap(list) {
		return list
	}
	grown := make([]E, len(list), len(list)+p.elementsLeft())
	copy(grown, list)
	return grown
}

// elementsLeft returns how many elements are left in the array or object that
// the parser is in, given that it is inside one of them. It is exact for a text
// that parses and otherwise at most what would fit: an element and its comma
// take two bytes.
func (p *parser) elementsLeft() int {
	n, depth, quoted := 1, 0, false
	for i := p.at; i < len(p.text) && depth >= 0; i++ {
		switch c := p.text[i]; {
		case quoted && c == '\\':
			i++
		case quoted:
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	return min(n, (len(p.text)-p.at)/2+1)
}
