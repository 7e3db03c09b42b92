package relaysvc_test

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/sentences"
)

const (
	// sentenceList is the list in the folder of the scripts of what shows each
	// sentence of the chapter.
	sentenceList = "sentences.txt"
	// shared has the chapter itself, beside a checkout or where ACE_SHARED says.
	// It need not be there.
	shared = "../../shared"
)

func readSentences(t *testing.T) []sentences.Line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts, sentenceList))
	must(t, err)
	list, err := sentences.ParseList(string(text))
	must(t, err)
	return list
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
		sections[s.Section] = true
		for _, by := range s.By {
			by = strings.TrimPrefix(by, "client: ")
			if !known[by] && !isGoTest(t, by) {
				t.Errorf("%s:%d: there is no %s", sentenceList, s.At, by)
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
			t.Errorf("%s lacks %s", sentenceList, slug)
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
	path := filepath.Join(cmp.Or(os.Getenv("ACE_SHARED"), shared), "spec", "07-relay.md")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no chapter at %s", path)
	}
	must(t, err)
	chapter := sentences.Split("07", string(text))
	for _, wrong := range sentences.Compare(readSentences(t), chapter) {
		t.Errorf("%s: %s", sentenceList, wrong)
	}
	for file, cases := range readScripts(t) {
		for _, c := range cases {
			for _, cite := range c.cites {
				for _, q := range cite.quotes {
					if !slices.ContainsFunc(chapter, func(s sentences.Sentence) bool {
						return s.Section == cite.section && strings.Contains(s.Text, q)
					}) {
						t.Errorf("%s, %s: %q does not occur in %s", file, c.name, q, cite.section)
					}
				}
			}
		}
	}
}
