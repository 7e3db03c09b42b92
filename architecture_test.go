package ace_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	sectionRow = regexp.MustCompile("^\\| `((?:[0-9]{2}|delegation|commerce)#[a-z0-9-]+)` \\| (.+) \\|$")
	quoted     = regexp.MustCompile("`([^`]+)`")
	layerRow   = regexp.MustCompile("^\\| [0-9] \\| `([^`]+)` \\|")
)

// TestArchitecture compares ARCHITECTURE.md with the repository: its table has
// a row for every section of the chapters and of the two official profiles, every
// file that it names is there, and so is every package of the layers.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, packages := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := layerRow.FindStringSubmatch(line); m != nil {
			packages[m[1]] = true
		}
		m := sectionRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rows[m[1]] = true
		for _, file := range quoted.FindAllStringSubmatch(m[2], -1) {
			if _, err := os.Stat(file[1]); err != nil {
				t.Errorf("ARCHITECTURE.md places %s in %s, which is not there", m[1], file[1])
			}
		}
	}
	compare(t, "section", rows, sectionsWithRow(t))
	compare(t, "package", packages, listedPackages())
}

// sectionsWithRow returns the sections the table has to have: all but the
// titles, which are the first heading of each page.
func sectionsWithRow(t *testing.T) map[string]bool {
	t.Helper()
	want := map[string]bool{}
	for _, slug := range committedSlugs(t) {
		page, section, _ := strings.Cut(slug, "#")
		title := strings.HasPrefix(section, page+"--") || strings.HasPrefix(section, page+"-profile-")
		if (page[0] == '0' || page == "delegation" || page == "commerce") && !title {
			want[slug] = true
		}
	}
	return want
}

func listedPackages() map[string]bool {
	want := map[string]bool{}
	for _, layer := range layers {
		for _, pkg := range layer {
			want[pkg] = true
		}
	}
	return want
}

func compare(t *testing.T, what string, got, want map[string]bool) {
	t.Helper()
	for name := range want {
		if !got[name] {
			t.Errorf("ARCHITECTURE.md has no row for %s %s", what, name)
		}
	}
	for name := range got {
		if !want[name] {
			t.Errorf("ARCHITECTURE.md has a row for %s, which is no %s", name, what)
		}
	}
}
