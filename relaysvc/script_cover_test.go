package relaysvc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// sentences is the list in the folder of the scripts of what shows each
	// sentence of the chapter.
	sentences = "sentences.txt"
	// chapter07 is the chapter itself, beside a checkout. It need not be there.
	chapter07 = "../../shared/spec/07-relay.md"
)

// covered is a line of the list.
type covered struct {
	at, section, quote string
	ordinal            int
	by                 []string
}

var isCovered = regexp.MustCompile(`^([0-9]+) "([^"]+)" : (.+)$`)

func readSentences(t *testing.T) []covered {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts, sentences))
	must(t, err)
	var all []covered
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", sentences, i+1)
		m := isCovered.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#':
		case isCite.MatchString(line):
			section = line
		case m == nil || section == "":
			t.Fatalf("%s: no line of the list", at)
		default:
			c := covered{at: at, section: section, quote: m[2], by: strings.Split(m[3], ", ")}
			_, err := fmt.Sscan(m[1], &c.ordinal)
			must(t, err)
			if strings.HasPrefix(m[3], "- ") {
				c.by = nil
			}
			all = append(all, c)
		}
	}
	return all
}

// TestSentences checks that what the list names exists, that it has every
// section of the chapter, and that every case of a script is in it.
func TestSentences(t *testing.T) {
	known := map[string]bool{}
	for file, cases := range readScripts(t) {
		for _, c := range cases {
			known[file+"/"+c.name] = true
		}
	}
	cases := len(known)
	named, sections := map[string]bool{}, map[string]bool{}
	for _, s := range readSentences(t) {
		sections[s.section] = true
		for _, by := range s.by {
			by = strings.TrimPrefix(by, "client: ")
			if !known[by] && !isGoTest(t, by) {
				t.Errorf("%s: there is no %s", s.at, by)
			}
			if known[by] {
				named[by] = true
			}
		}
	}
	slugs, err := os.ReadFile("../testdata/spec-slugs.txt")
	must(t, err)
	for _, slug := range strings.Fields(string(slugs)) {
		if strings.HasPrefix(slug, "07#") && !sections[slug] {
			t.Errorf("%s lacks %s", sentences, slug)
		}
	}
	if len(named) != cases {
		for name := range known {
			if !named[name] {
				t.Errorf("no sentence names the case %s", name)
			}
		}
	}
}

// isGoTest reports whether there is a test of that name: a package, a dot and
// a function.
func isGoTest(t *testing.T, name string) bool {
	t.Helper()
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	files, err := filepath.Glob(filepath.Join("..", name[:dot], "*_test.go"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if strings.Contains(string(text), "\nfunc "+name[dot+1:]+"(") {
			return true
		}
	}
	return false
}

// TestChapter compares the list and the quotes of the scripts with the chapter.
func TestChapter(t *testing.T) {
	if _, err := os.Stat(chapter07); err != nil {
		t.Skipf("no chapter at %s", chapter07)
	}
	chapter := readChapter(t)
	listed := map[string]int{}
	for _, s := range readSentences(t) {
		listed[s.section]++
		have := chapter[s.section]
		if s.ordinal != listed[s.section] || s.ordinal > len(have) || !strings.Contains(have[s.ordinal-1], s.quote) {
			t.Errorf("%s: %q is not sentence %d of %s", s.at, s.quote, s.ordinal, s.section)
		}
		if n := len(strings.Fields(s.quote)); n > 8 {
			t.Errorf("%s: a quote of %d words", s.at, n)
		}
	}
	for section, have := range chapter {
		if listed[section] != len(have) {
			t.Errorf("%s lists %d sentences of %s, which has %d", sentences, listed[section], section, len(have))
		}
	}
	for file, cases := range readScripts(t) {
		for _, c := range cases {
			for _, cite := range c.cites {
				for _, q := range cite.quotes {
					if !slices.ContainsFunc(chapter[cite.section], func(s string) bool { return strings.Contains(s, q) }) {
						t.Errorf("%s, %s: %q does not occur in %s", file, c.name, q, cite.section)
					}
				}
			}
		}
	}
}

var (
	chapterHeading = regexp.MustCompile(`^#{1,4} +(.*)$`)
	tableRule      = regexp.MustCompile(`^\|[-| ]+\|$`)
	listNumber     = regexp.MustCompile(`^[0-9]+\.$`)
	sentenceEnd    = regexp.MustCompile("\\.\\s+([A-Z`*\\[])")
	notInSlug      = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// readChapter returns the sentences of the chapter by section. A row of a table
// and a line of a code block count as one.
func readChapter(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(chapter07)
	must(t, err)
	out := map[string][]string{}
	section, fenced := "", false
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		heading := chapterHeading.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case line == "" || strings.HasPrefix(line, "<!--") || tableRule.MatchString(line):
		case heading != nil && !fenced:
			slug := notInSlug.ReplaceAllString(strings.ToLower(heading[1]), "")
			section = "07#" + strings.ReplaceAll(slug, " ", "-")
		case fenced || line[0] == '|':
			out[section] = append(out[section], line)
		default:
			out[section] = append(out[section], splitSentences(line)...)
		}
	}
	return out
}

// splitSentences splits a paragraph. The number of a list item stays with it.
func splitSentences(paragraph string) []string {
	parts := strings.Split(sentenceEnd.ReplaceAllString(paragraph, ".\n$1"), "\n")
	var out []string
	number := ""
	for _, part := range parts {
		if listNumber.MatchString(part) {
			number = part + " "
			continue
		}
		out, number = append(out, number+part), ""
	}
	return out
}
