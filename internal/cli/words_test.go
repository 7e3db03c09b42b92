package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// notOfMessages is where the word may stand, since it is not said of a message: of
// permits, of contact requests, which get no receipt, of bytes and of a signal.
var notOfMessages = regexp.MustCompile(`^sent$|contact request is never sent again|` +
	`admitted peers are sent fresh ones|contact request was taken by no relay and is not sent again|` +
	`no permit of yours that is valid, and none can be sent|not renewing it\. Nothing is sent|Nothing is published, received or sent|receipt (can|could not) be sent|contact request to a peer was recorded as pending, to be sent`)

var sent = regexp.MustCompile(`(?i)\bsent\b`)

// Nothing calls a message sent: what is said of it in help, manual pages and
// answers is one of the states, and of those only delivered says that it arrived
// (agentlink: nothing ever says "sent").
func TestNothingSaysSent(t *testing.T) {
	checked := 0
	look := func(where, text string) {
		checked++
		for line := range strings.Lines(text) {
			if sent.MatchString(line) && !notOfMessages.MatchString(line) {
				t.Errorf("%s: %q", where, strings.TrimSpace(line))
			}
		}
	}
	for _, pattern := range []string{"../../man/*", "../../completions/*", "../../README.md", "../../docs/node/*", "../../testdata/script/tour.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			must(t, err)
			look(name, string(text))
		}
	}
	for _, dir := range []string{".", "..", "../../core", "../../core/delivery", "../../core/policy"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must(t, err)
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				eachText(t, name, look)
			}
		}
	}
	if checked < 1000 {
		t.Fatalf("only %d texts: the test does not look at what the program says", checked)
	}
}

// eachText looks at the texts in a source file.
func eachText(t *testing.T, name string, look func(where, text string)) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, 0)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			must(t, err)
			look(set.Position(lit.Pos()).String(), text)
		}
		return true
	})
}

// TestStates: the states that lists take and help names are those of the endpoint,
// each in help.
func TestStates(t *testing.T) {
	for _, state := range outgoingStates() {
		if !strings.Contains(outboxLong, "\n  "+state+" ") {
			t.Errorf("the help of ace outbox list lacks %s", state)
		}
	}
	if len(outgoingStates()) != 7 {
		t.Errorf("states %v", outgoingStates())
	}
}
