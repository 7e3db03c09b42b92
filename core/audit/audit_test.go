package audit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/audit"
)

// constants returns the events that the package names, by the names.
func constants(t *testing.T) map[string]audit.Event {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "audit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]audit.Event{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if literal, ok := v.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[v.Names[0].Name] = audit.Event(text)
		}
		return true
	})
	if len(found) < 30 {
		t.Fatalf("only %d events found", len(found))
	}
	return found
}

// The vocabulary is closed: each event that has a name has one sentence, and no
// other has.
func TestEachEventHasASentence(t *testing.T) {
	left := map[audit.Event]bool{}
	for name, e := range constants(t) {
		if left[e] {
			t.Errorf("%s is %s, as another event", name, e)
		}
		left[e] = true
	}
	for _, d := range audit.Events() {
		if !left[d.Event] {
			t.Errorf("%s has no name, or several sentences", d.Event)
		}
		delete(left, d.Event)
		if !strings.HasSuffix(d.Meaning, ".") || strings.Contains(d.Meaning, "\n") {
			t.Errorf("%s: %q is no sentence", d.Event, d.Meaning)
		}
		if kind, what, ok := strings.Cut(string(d.Event), "."); !ok || strings.Trim(kind+what, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%s is not of the form kind.what", d.Event)
		}
	}
	for e := range left {
		t.Errorf("%s has no sentence", e)
	}
}

// What is in the vocabulary is written somewhere: a reader who waits for an event
// does not wait for nothing.
func TestEachEventIsWritten(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"../../core", "../../internal/cli"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "audit" {
						source.WriteString(" " + s.Sel.Name + " ")
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range constants(t) {
		if !strings.Contains(source.String(), " "+name+" ") {
			t.Errorf("nobody writes %s", e)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    []audit.Event
	}{
		{"pin.adopted", []audit.Event{audit.PinAdopted}},
		{"pin.*", []audit.Event{audit.PinAdopted, audit.PinExtended, audit.PinRecovered, audit.PinConflict}},
		{"*.rejected", []audit.Event{audit.MessageRejected}},
		{"pin", nil},
		{"[", nil},
		{"", nil},
	} {
		if got := audit.Match(c.pattern); !slices.Equal(got, c.want) {
			t.Errorf("%q fits %v, want %v", c.pattern, got, c.want)
		}
	}
	if audit.Event("pin.stolen").Known() || !audit.PinConflict.Known() {
		t.Error("Known knows what is not in the vocabulary, or not what is")
	}
}
