package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// clean makes text from a peer or a relay safe to print on a terminal: control
// characters, which could move the cursor or change the clipboard, and the
// characters that change the direction of text become visible escapes. Line
// breaks and tabs stay when lines is true.
func clean(s string, lines bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return hostile(r) }) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case !hostile(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cleanJSON writes what a terminal may act on as escapes, which JSON text has for
// all of it inside strings: the document stays the same.
func cleanJSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, hostile) {
		return data
	}
	var out []byte
	for _, r := range string(data) {
		if !hostile(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// hostile reports whether a terminal may act on r instead of showing it.
func hostile(r rune) bool {
	switch {
	case unicode.IsControl(r), r == utf8.RuneError:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0x061c:
		return true
	}
	return r >= 0xe0000 && r <= 0xe007f // tags: invisible copies of ASCII
}

// shortID shortens an ACE ID for people: it keeps enough to be given back as
// the prefix of a known peer.
func shortID(id string) string {
	digest, ok := strings.CutPrefix(id, "ace:sha256:")
	if !ok || len(digest) < 16 {
		return id
	}
	return "ace:sha256:" + digest[:16] + "…"
}

// timeStyle is how text shows a time.
type timeStyle string

const (
	timeRFC3339  timeStyle = "rfc3339"
	timeUnix     timeStyle = "unix"
	timeRelative timeStyle = "relative"
)

// formatTime shows Unix seconds t in the given style; 0 is "-".
func formatTime(t, now int64, style timeStyle, utc bool) string {
	switch {
	case t == 0:
		return "-"
	case style == timeUnix:
		return fmt.Sprint(t)
	case style == timeRelative:
		return relative(t - now)
	}
	at := time.Unix(t, 0)
	if utc {
		at = at.UTC()
	}
	return at.Format(time.RFC3339)
}

func relative(seconds int64) string {
	d, format := seconds, "in %s"
	if d < 0 {
		d, format = -d, "%s ago"
	}
	var text string
	switch {
	case d < 5:
		return "now"
	case d < 120:
		text = fmt.Sprintf("%d s", d)
	case d < 2*3600:
		text = fmt.Sprintf("%d min", d/60)
	case d < 2*86400:
		text = fmt.Sprintf("%d h", d/3600)
	default:
		text = fmt.Sprintf("%d d", d/86400)
	}
	return fmt.Sprintf(format, text)
}

// orNull is nil for "": the JSON null of a text that is not there.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeOrNull is nil for 0: the JSON null of a time that is not set.
func timeOrNull(t int64) *int64 {
	if t == 0 {
		return nil
	}
	return &t
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// count says how many there are of something: "1 message", "2 messages".
func count[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// idPrefix is how many hex digits of an ACE ID name a known peer.
const idPrefix = 12

// isIDPrefix reports whether a text can only be the start of an ACE ID.
func isIDPrefix(typed string) bool {
	start, marked := strings.CutPrefix(typed, "ace:sha256:")
	return (marked || len(start) >= idPrefix) && strings.Trim(start, "0123456789abcdef") == ""
}

// errNoPrefix says that a text is not the start of one of the IDs.
var errNoPrefix = errors.New("not the start of an ID")

// completeID returns the one of the IDs that the text is the start of, with or
// without "ace:sha256:". Code: invalid_argument for a start of several.
func completeID(typed string, ids []string) (string, error) {
	start := strings.TrimSuffix(strings.TrimPrefix(typed, "ace:sha256:"), "…")
	if len(start) < idPrefix {
		return "", errNoPrefix
	}
	found := ""
	for _, id := range ids {
		if !strings.HasPrefix(id, "ace:sha256:"+start) {
			continue
		}
		if found != "" {
			return "", usagef("%q is the start of several IDs", typed)
		}
		found = id
	}
	if found == "" {
		return "", errNoPrefix
	}
	return found, nil
}
