package ace_test

import (
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/sentences"
)

// specDir is the specification beside a checkout. It need not be there.
const specDir = "../shared/spec"

// slugList names every section that a comment may cite, one chapter#slug a line.
const slugList = "testdata/spec-slugs.txt"

// pages maps the pages beside the chapters 00 to 08 to the word that cites them.
var pages = map[string]string{
	"profile-commerce":   "commerce",
	"profile-delegation": "delegation",
	"custody":            "custody",
	"interop":            "interop",
	"limits":             "limits",
	"agentlink-messages": "agentlink",
}

var (
	citation = regexp.MustCompile(`\b(?:[0-9]{2}|commerce|delegation|custody|interop|limits|agentlink)#[A-Za-z0-9][A-Za-z0-9_-]*`)
	chapter  = regexp.MustCompile(`^0[0-8]`)
	heading  = regexp.MustCompile(`^#{1,4} +(.+)$`)
)

var update = flag.Bool("update", false, "write "+slugList+" anew from "+specDir)

// TestCitations checks that each section cited in a comment exists, so that a
// search for a rule finds all its places and a misspelt one is not lost.
func TestCitations(t *testing.T) {
	known := map[string]bool{}
	for _, slug := range committedSlugs(t) {
		known[slug] = true
	}
	cited := map[string]bool{}
	for _, name := range goFiles(t) {
		for _, c := range citationsIn(t, name) {
			cited[c.section] = true
			if !known[c.section] {
				t.Errorf("%s:%d: %s is no section of the specification", name, c.line, c.section)
			}
		}
	}
	if len(cited) == 0 {
		t.Fatal("no citation found: the test does not look at the code")
	}
	for _, slug := range slices.Sorted(maps.Keys(known)) {
		if !cited[slug] {
			t.Logf("no file cites %s", slug)
		}
	}
}

// TestSlugList compares the committed list with the specification itself.
// With -update it writes the list anew.
func TestSlugList(t *testing.T) {
	if _, err := os.Stat(specDir); err != nil {
		t.Skipf("no specification at %s to compare %s with", specDir, slugList)
	}
	want := specSlugs(t)
	if *update {
		if err := os.WriteFile(slugList, []byte(strings.Join(want, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := committedSlugs(t)
	for _, slug := range want {
		if !slices.Contains(got, slug) {
			t.Errorf("%s lacks %s", slugList, slug)
		}
	}
	for _, slug := range got {
		if !slices.Contains(want, slug) {
			t.Errorf("%s has %s, which is no section", slugList, slug)
		}
	}
}

type cite struct {
	section string
	line    int
}

// citationsIn returns the citations in the comments of one file.
func citationsIn(t *testing.T, name string) []cite {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file := fset.AddFile(name, fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var found []cite
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return found
		}
		if tok != token.COMMENT {
			continue
		}
		for _, at := range citation.FindAllStringIndex(text, -1) {
			line := fset.Position(pos).Line + strings.Count(text[:at[0]], "\n")
			found = append(found, cite{text[at[0]:at[1]], line})
		}
	}
}

func committedSlugs(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(slugList)
	if err != nil {
		t.Fatal(err)
	}
	slugs := strings.Fields(string(text))
	if len(slugs) == 0 {
		t.Fatalf("%s is empty", slugList)
	}
	return slugs
}

// specSlugs returns the sections of the specification, sorted.
func specSlugs(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(specDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), ".md")
		page := pages[base]
		if page == "" {
			page = chapter.FindString(base)
		}
		if page == "" {
			continue
		}
		slugs := headingSlugs(t, name)
		if len(slugs) == 0 && chapter.MatchString(page) {
			t.Errorf("%s has no heading", name)
		}
		for _, s := range slugs {
			all = append(all, page+"#"+s)
		}
	}
	slices.Sort(all)
	return all
}

// headingSlugs returns the slugs of the headings of one page, in order. As on
// GitHub, a slug that occurs again gets a number.
func headingSlugs(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var slugs []string
	times := map[string]int{}
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		m := heading.FindStringSubmatch(line)
		if fenced || m == nil {
			continue
		}
		s := sentences.Slug(m[1])
		n := times[s]
		times[s]++
		if n > 0 {
			s = fmt.Sprintf("%s-%d", s, n)
		}
		slugs = append(slugs, s)
	}
	return slugs
}
