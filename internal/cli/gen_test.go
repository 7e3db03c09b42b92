package cli

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write man/ and completions/ anew")

// TestGenerated compares man/ and completions/ with the commands.
func TestGenerated(t *testing.T) {
	s := newStage(t)
	if *update {
		s.must("gen", "../..")
	}
	if r := s.try("gen", "../..", "--check"); r.status != exitOK {
		t.Errorf("run make gen: %s", r.err)
	}
}

// TestManPages shows that the manual has every option, status and variable, and
// that groff has nothing to complain about where it is installed.
func TestManPages(t *testing.T) {
	oneThing(t)
	dir := t.TempDir()
	s := newStage(t)
	s.must("man", "-o", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for page, words := range map[string][]string{
		"ace.1":             {"\\-\\-passphrase\\-fd", "\\-\\-json"},
		"ace-contact.1":     {"ace contact accept", "\\-\\-fail\\-empty"},
		"ace-listen.1":      {".B ace listen [\\-\\-once]", "\\-\\-forever", "ace listen unit", "\\-\\-system"},
		"ace-exit-codes.7":  {"kel_conflict", "143"},
		"ace-environment.7": {"ACE_PASSPHRASE", "ACE_NO_INPUT"},
	} {
		text := s.must("man", page)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %s", page, w)
			}
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		if strings.Contains(string(text), ".br\n.SH") {
			t.Errorf("%s: a break before a heading, which mandoc warns of", filepath.Base(page))
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is not installed: the pages were not rendered")
		return
	}
	for _, page := range pages {
		out, err := exec.CommandContext(context.Background(), groff, "-man", "-Tutf8", "-ww", "-z", page).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", filepath.Base(page), err, out)
		}
	}
}
