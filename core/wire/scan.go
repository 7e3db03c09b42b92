package wire

import (
	"bytes"
	"strconv"
)

// Scanner reads the canonical JSON (02#canonical-json) of an object whose
// members are fixed, piece after piece, without building a value: a piece is the
// text between two values that vary. It accepts canonical text alone and says
// nothing about any other, for which there is [Parse].
//
// After a failure it reads nothing more and its methods return zero values: look
// at the last result, [Scanner.Rest]. It does not change the text and keeps none
// of it, but for what Value and Rest return.
type Scanner struct {
	rest   []byte
	failed bool
}

// NewScanner starts at the head of text.
func NewScanner(text []byte) Scanner { return Scanner{rest: text} }

// Rest returns the text that was not read, and whether all before it was as
// asked for.
func (s *Scanner) Rest() (rest []byte, ok bool) { return s.rest, !s.failed }

// Refuse makes the scanner fail.
func (s *Scanner) Refuse() { s.failed = true }

// Skip reads piece.
func (s *Scanner) Skip(piece string) {
	if s.failed || len(s.rest) < len(piece) || string(s.rest[:len(piece)]) != piece {
		s.failed = true
		return
	}
	s.rest = s.rest[len(piece):]
}

// Value reads piece and returns what is between it and the next stop, which it
// does not read. The caller judges it: it can be anything.
func (s *Scanner) Value(piece string, stop byte) []byte {
	s.Skip(piece)
	if s.failed {
		return nil
	}
	end := bytes.IndexByte(s.rest, stop)
	if end < 0 {
		s.failed = true
		return nil
	}
	v := s.rest[:end]
	s.rest = s.rest[end:]
	return v
}

// Text reads piece and the string after it, up to its closing quote, which has
// to be of the grammar that is tests. The grammar must have no character that
// JSON escapes.
func (s *Scanner) Text(piece string, is func(string) bool) string {
	v := string(s.Value(piece, '"'))
	s.failed = s.failed || !is(v)
	return v
}

// Plain reads piece and the string after it, up to its closing quote, which has
// to consist of printable ASCII that JSON does not escape.
func (s *Scanner) Plain(piece string) {
	for _, c := range s.Value(piece, '"') {
		if !isPlain(c) || c >= 0x7f {
			s.failed = true
			return
		}
	}
}

// maxIntDigits is the length of MaxInt in decimal.
const maxIntDigits = 16

// Int reads piece and the wire integer after it, up to a comma
// (02#wire-integers).
func (s *Scanner) Int(piece string) int64 {
	v := s.Value(piece, ',')
	if len(v) == 0 || len(v) > maxIntDigits || !isDigit(v[0]) || v[0] == '0' && len(v) > 1 {
		s.failed = true
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > MaxInt {
		s.failed = true
		return 0
	}
	return n
}
