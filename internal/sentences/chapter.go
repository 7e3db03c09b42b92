// Package sentences is for tests: it takes a page of the specification apart
// into its sentences and reads the lists that say which test shows each.
package sentences

import (
	"regexp"
	"strings"
	"unicode"
)

// A Sentence is one of a page, with the section it stands in as citations name
// it, 06#receipts. A row of a table and a line of a code block count as one;
// the number of a list item stays with its first sentence.
type Sentence struct {
	Section, Text string
}

var (
	heading     = regexp.MustCompile(`^#{1,4} +(.*)$`)
	tableRule   = regexp.MustCompile(`^\|[-| ]+\|$`)
	listNumber  = regexp.MustCompile(`^[0-9]+\.$`)
	sentenceEnd = regexp.MustCompile("\\.\\s+([A-Z`*\\[])")
)

// Split returns the sentences of the page that citations call page, in order.
func Split(page, text string) []Sentence {
	var all []Sentence
	section, fenced := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		title := heading.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case line == "" || strings.HasPrefix(line, "<!--") || tableRule.MatchString(line):
		case title != nil && !fenced:
			section = page + "#" + Slug(title[1])
		case fenced || line[0] == '|':
			all = append(all, Sentence{section, line})
		default:
			for _, s := range splitParagraph(line) {
				all = append(all, Sentence{section, s})
			}
		}
	}
	return all
}

func splitParagraph(paragraph string) []string {
	var all []string
	number := ""
	for part := range strings.SplitSeq(sentenceEnd.ReplaceAllString(paragraph, ".\n$1"), "\n") {
		if listNumber.MatchString(part) {
			number = part + " "
			continue
		}
		all, number = append(all, number+part), ""
	}
	return all
}

// Slug follows GitHub: lower case, letters, digits, hyphens and underscores
// kept, blanks turned into hyphens, the rest dropped. A heading that opens with
// a code span ends with it: on the interop page the paragraph below ran on into
// the heading's line.
func Slug(title string) string {
	if code, ok := strings.CutPrefix(title, "`"); ok {
		title, _, _ = strings.Cut(code, "`")
	}
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}
