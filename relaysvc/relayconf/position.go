package relayconf

import (
	"strconv"
	"strings"
)

// joinKey writes a path of names as TOML does, with quotes where a name is no
// bare one.
func joinKey(path []string) string {
	var parts []string
	for _, name := range path {
		bare := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
		})
		if !bare {
			name = quote(name)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ".")
}

// lineOf returns the line of text that sets the key at path, or its table when
// the table stands on one line. The text has been parsed before: this finds
// names at the start of lines and does not judge them. It answers 1 when it
// finds nothing.
func lineOf(text string, path []string) int {
	for depth := len(path); depth > 0; depth-- {
		if n := lineAt(text, joinKey(path[:depth])); n > 0 {
			return n
		}
	}
	return 1
}

func lineAt(text, key string) int {
	table, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if header, ok := strings.CutPrefix(line, "["); ok {
			name, _, closed := strings.Cut(strings.TrimPrefix(header, "["), "]")
			if !closed {
				continue // an element of an array
			}
			if table = tidyKey(name); isWithin(table, key) {
				return n
			}
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		if name = tidyKey(name); table != "" {
			name = table + "." + name
		}
		if isWithin(name, key) {
			return n
		}
	}
	return 0
}

// isWithin reports whether name is key or a name inside that table.
func isWithin(name, key string) bool {
	return name == key || strings.HasPrefix(name, key+".")
}

// tidyKey returns a dotted key without blanks and needless quotes.
func tidyKey(text string) string {
	var path []string
	name, quoted := "", rune(0)
	for _, r := range text {
		switch {
		case r == quoted:
			quoted = 0
		case quoted == 0 && (r == '"' || r == '\''):
			quoted = r
		case quoted == 0 && r == '.':
			path, name = append(path, name), ""
		case quoted != 0 || r != ' ' && r != '\t':
			name += string(r)
		}
	}
	return joinKey(append(path, name))
}

// lineIn returns the line of a place, 0 when it has none.
func lineIn(where string) int {
	n, err := strconv.Atoi(where[strings.LastIndexByte(where, ':')+1:])
	if err != nil {
		return 0
	}
	return n
}
