package sentences

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Line of a list says who shows one sentence. By has the names of the tests;
// where there are none, Why has the reason.
type Line struct {
	At      int // number of the line in the list
	Section string
	Ordinal int // of the sentence in its section, from 1
	Quote   string
	By      []string
	Why     string
}

var (
	listSection = regexp.MustCompile(`^[0-9a-z]+#[0-9a-z-]+$`)
	listLine    = regexp.MustCompile(`^([0-9]+) "([^"]+)"(?: : (.+))?$`)
)

// ParseList reads a list. A section stands on a line of its own, and below it a
// line for each sentence: its ordinal, some of its words in quotation marks,
// then a colon and the names of tests, with commas between them, or a hyphen and
// a reason. Names may also follow below, one a line and indented. Lines that
// begin with # are comments.
func ParseList(text string) ([]Line, error) {
	var all []Line
	section := ""
	for i, line := range strings.Split(text, "\n") {
		name := strings.TrimSpace(line)
		m := listLine.FindStringSubmatch(line)
		switch {
		case name == "" || line[0] == '#':
		case listSection.MatchString(line):
			section = line
		case line[0] == ' ' && len(all) > 0:
			last := &all[len(all)-1]
			last.By = append(last.By, name)
		case m == nil || section == "":
			return nil, fmt.Errorf("line %d is no line of a list", i+1)
		default:
			l := Line{At: i + 1, Section: section, Quote: m[2]}
			l.Ordinal, _ = strconv.Atoi(m[1])
			if why, ok := strings.CutPrefix(m[3], "- "); ok {
				l.Why = why
			} else if m[3] != "" {
				l.By = strings.Split(m[3], ", ")
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// maxQuote is how many words of a sentence a list may repeat.
const maxQuote = 8

// Compare tells where a list differs from the page it is about: what is missing
// or out of order, quotes that are not of their sentence, and lines that name
// neither a test nor a reason.
func Compare(list []Line, page []Sentence) []string {
	var wrong []string
	ordinal := map[string]int{}
	for i, s := range page {
		ordinal[s.Section]++
		n := ordinal[s.Section]
		if i == len(list) {
			return append(wrong, fmt.Sprintf("the list ends before sentence %d of %s, %.40q", n, s.Section, s.Text))
		}
		l := list[i]
		if l.Section != s.Section || l.Ordinal != n {
			return append(wrong, fmt.Sprintf("line %d: sentence %d of %s belongs here, %.40q", l.At, n, s.Section, s.Text))
		}
		if !strings.Contains(s.Text, l.Quote) {
			wrong = append(wrong, fmt.Sprintf("line %d: %q is not in sentence %d of %s, %.60q", l.At, l.Quote, n, s.Section, s.Text))
		}
		if words := len(strings.Fields(l.Quote)); words > maxQuote {
			wrong = append(wrong, fmt.Sprintf("line %d: a quote of %d words", l.At, words))
		}
	}
	for _, l := range list[len(page):] {
		wrong = append(wrong, fmt.Sprintf("line %d: %s has no such sentence", l.At, l.Section))
	}
	for _, l := range list {
		if len(l.By) == 0 && l.Why == "" {
			wrong = append(wrong, fmt.Sprintf("line %d: neither a test nor a reason", l.At))
		}
	}
	return wrong
}
