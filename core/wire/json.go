package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError is a JSON text that 02#json-values does not accept.
type SyntaxError struct {
	// Offset is the byte offset at which the text stops being acceptable.
	Offset int
	// Rule is the rule that it breaks there.
	Rule string
}

// Error names the position and the rule.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("json at byte %d: %s", e.Offset, e.Rule)
}

// Parse reads one JSON text under the rules of 02#json-values: valid UTF-8,
// RFC 8259 without extensions, no duplicate keys, no number that overflows
// binary64, no unpaired surrogate, and no object or array deeper than
// maxDepth, where the top-level value is at depth 0. It returns a
// *SyntaxError.
//
// The returned Value keeps data's text alive, not data itself.
func Parse(data []byte, maxDepth int) (Value, error) {
	p, err := newParser(data, maxDepth)
	if err != nil {
		return Value{}, err
	}
	return p.finish(p.value(0))
}

// newParser returns a parser that stands at the value of the text.
func newParser(data []byte, maxDepth int) (parser, error) {
	if !utf8.Valid(data) {
		return parser{}, &SyntaxError{Offset: invalidUTF8At(data), Rule: "invalid UTF-8"}
	}
	p := parser{text: string(data), maxDepth: maxDepth}
	p.space()
	return p, nil
}

// finish returns the value v of the whole text.
func (p *parser) finish(v Value) (Value, error) {
	p.space()
	if p.err == nil && p.at < len(p.text) {
		p.fail("text after the value")
	}
	if p.err != nil {
		return Value{}, p.err
	}
	return v, nil
}

func invalidUTF8At(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

type parser struct {
	text     string
	at       int
	maxDepth int
	err      *SyntaxError
}

func (p *parser) fail(rule string) {
	if p.err == nil {
		p.err = &SyntaxError{Offset: p.at, Rule: rule}
	}
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end of the text.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) value(depth int) Value {
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return NewString(p.string())
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't' && p.literal("true"):
		return NewBool(true)
	case c == 'f' && p.literal("false"):
		return NewBool(false)
	case c == 'n' && p.literal("null"):
		return Value{}
	case p.at == len(p.text):
		p.fail("unexpected end of the text")
	default:
		p.fail("no JSON value starts here")
	}
	return Value{}
}

func (p *parser) literal(word string) bool {
	if !strings.HasPrefix(p.text[p.at:], word) {
		return false
	}
	p.at += len(word)
	return true
}

func (p *parser) enter(depth int) bool {
	if depth > p.maxDepth {
		p.fail(fmt.Sprintf("nested deeper than %d", p.maxDepth))
		return false
	}
	p.at++
	p.space()
	return true
}

// more reads what follows an element: it reports whether another one comes.
func (p *parser) more(end byte) bool {
	p.space()
	switch p.peek() {
	case ',':
		p.at++
		p.space()
		return p.err == nil
	case end:
		p.at++
	default:
		p.fail(fmt.Sprintf("expected ',' or '%c'", end))
	}
	return false
}

func (p *parser) array(depth int) Value {
	v := Value{kind: Array}
	if !p.enter(depth) {
		return v
	}
	if p.peek() == ']' {
		p.at++
		return v
	}
	for {
		v.items = withRoom(p, v.items)
		v.items = append(v.items, p.value(depth+1))
		if p.err != nil || !p.more(']') {
			return v
		}
	}
}

func (p *parser) object(depth int) Value {
	v := Value{kind: Object}
	start := p.at
	if !p.enter(depth) {
		return v
	}
	if p.peek() == '}' {
		p.at++
		return v
	}
	for {
		key, ok := p.memberName()
		if !ok {
			return v
		}
		v.members = withRoom(p, v.members)
		v.members = append(v.members, Member{key, p.value(depth + 1)})
		if p.err != nil || !p.more('}') {
			break
		}
	}
	p.sortMembers(v.members, start)
	return v
}

// memberName reads the name of a member and the colon after it.
func (p *parser) memberName() (string, bool) {
	if p.peek() != '"' {
		p.fail("expected a member name")
		return "", false
	}
	key := p.string()
	p.space()
	if p.peek() != ':' {
		p.fail("expected ':'")
		return "", false
	}
	p.at++
	p.space()
	return key, true
}

// sortMembers puts members into the order of 02#canonical-json, in which
// duplicate keys are neighbours.
func (p *parser) sortMembers(members []Member, start int) {
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(members); i++ {
		if members[i].Key == members[i-1].Key {
			p.duplicate(members[i].Key, start)
		}
	}
}

// duplicate fails for a member that the object starting at start has twice.
func (p *parser) duplicate(key string, start int) {
	if p.err == nil {
		p.err = &SyntaxError{Offset: start, Rule: fmt.Sprintf("duplicate member %.40q", key)}
	}
}

func (p *parser) number() Value {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else {
		p.digits()
	}
	if p.peek() == '.' {
		p.at++
		p.digits()
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		p.digits()
	}
	if p.err != nil {
		return Value{}
	}
	f, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if err != nil {
		p.at = start
		p.fail("number overflows binary64")
	}
	return Value{kind: Number, num: f}
}

func (p *parser) digits() {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at == start {
		p.fail("expected a digit")
	}
}

// string reads a string. One without escapes is a part of the text itself.
func (p *parser) string() string {
	start := p.at + 1
	end := start
	for end < len(p.text) && isPlain(p.text[end]) {
		end++
	}
	p.at = end
	switch {
	case end == len(p.text):
		p.fail("string without end")
	case p.text[end] == '"':
		p.at++
		return p.text[start:end]
	case p.text[end] == '\\':
		return p.escaped(start)
	default:
		p.fail("control character in a string")
	}
	return ""
}

// isPlain reports whether a byte of a string stands for itself.
func isPlain(c byte) bool { return c >= 0x20 && c != '"' && c != '\\' }

func (p *parser) escaped(start int) string {
	var b strings.Builder
	b.WriteString(p.text[start:p.at])
	for p.at < len(p.text) && p.err == nil {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return b.String()
		case c == '\\':
			b.WriteRune(p.escape())
			continue
		case c < 0x20:
			p.fail("control character in a string")
		default:
			b.WriteByte(c)
		}
		p.at++
	}
	p.fail("string without end")
	return ""
}

func (p *parser) escape() rune {
	p.at++
	c := p.peek()
	p.at++
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		return p.unicode()
	}
	p.at--
	p.fail("unknown escape")
	return 0
}

// unicode reads the four digits of a \u escape and, after a leading surrogate,
// the trailing one. An unpaired surrogate is no character (02#canonical-json).
func (p *parser) unicode() rune {
	r := p.hex4()
	switch {
	case r < 0xd800 || r > 0xdfff:
		return r
	case r < 0xdc00 && strings.HasPrefix(p.text[p.at:], `\u`):
		p.at += 2
		if low := p.hex4(); low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
		}
	}
	p.fail("unpaired surrogate")
	return 0
}

func (p *parser) hex4() rune {
	if len(p.text)-p.at < 4 {
		p.fail("short \\u escape")
		return 0
	}
	var r rune
	for range 4 {
		d := hexDigit(p.text[p.at])
		if d < 0 {
			p.fail("expected a hexadecimal digit")
			return 0
		}
		r = r<<4 | rune(d)
		p.at++
	}
	return r
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
