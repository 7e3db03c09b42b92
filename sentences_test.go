package ace_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/sentences"
)

// chapterLists has a list for each chapter whose sentences are accounted for. A
// line names the tests that fail when the rule is broken, as core/kel.TestOrder
// or, for one case of a table, core/kel.TestOrder/notAfter 0. Chapter 07 has its
// list beside the conformance scripts. The tests of this folder are those of ace.
const chapterLists = "testdata/chapters"

// chapterPages maps a list to the page that it is about: of the specification, or
// of what is built around it.
var chapterPages = map[string]string{
	"01":         "01-identity.md",
	"04":         "04-descriptor.md",
	"05":         "05-admission.md",
	"06":         "06-delivery.md",
	"08":         "08-profiles.md",
	"commerce":   "profile-commerce.md",
	"delegation": "profile-delegation.md",
	"agentlink":  "../design/agentlink.md",
}

// caseFolders has the tests whose cases are files or in files: where those are,
// with * for what stands before the next slash of the name.
var caseFolders = map[string]string{
	"internal/cli.TestScripts":     "testdata/script/*.txtar",
	"internal/interop.TestVectors": "testdata/vectors/*.json",
	"relaysvc.TestScripts":         "testdata/relay/*.txt",
}

// TestSentencesHaveTests checks that each test that a list names exists.
func TestSentencesHaveTests(t *testing.T) {
	tests := testNames{}
	for page := range chapterPages {
		for _, line := range readList(t, page) {
			for _, name := range line.By {
				if why := tests.missing(t, name); why != "" {
					t.Errorf("%s.txt:%d: %s: %s", page, line.At, name, why)
				}
			}
		}
	}
}

// TestSentencesAreThoseOfTheChapters compares the lists with the specification,
// beside the checkout or where ACE_SHARED says: no sentence is missing, and all
// are in order.
func TestSentencesAreThoseOfTheChapters(t *testing.T) {
	dir := specDir
	if shared := os.Getenv("ACE_SHARED"); shared != "" {
		dir = filepath.Join(shared, "spec")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no specification at %s", dir)
	}
	for page, file := range chapterPages {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range sentences.Compare(readList(t, page), sentences.Split(page, string(text))) {
			t.Errorf("%s.txt: %s", page, wrong)
		}
	}
}

func readList(t *testing.T, page string) []sentences.Line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chapterLists, page+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := sentences.ParseList(string(text))
	if err != nil {
		t.Fatalf("%s.txt: %v", page, err)
	}
	if len(list) == 0 {
		t.Fatalf("%s.txt is empty", page)
	}
	return list
}

// testNames has, for each package looked at, its test functions and the string
// literals of the file that each stands in.
type testNames map[string]map[string][]string

var testName = regexp.MustCompile(`^([a-z/]+)\.((?:Test|Fuzz)\w+)(?:/(.+))?$`)

// missing says why there is no test of that name, or returns "".
func (n testNames) missing(t *testing.T, name string) string {
	t.Helper()
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return "no name of a test"
	}
	pkg, function, subtest := m[1], m[2], m[3]
	if n[pkg] == nil {
		n[pkg] = readTests(t, pkg)
	}
	literals, ok := n[pkg][function]
	switch {
	case !ok:
		return "there is no such function"
	case subtest == "" || slices.Contains(literals, subtest):
		return ""
	case caseFolders[pkg+"."+function] != "":
		return missingCase(t, caseFolders[pkg+"."+function], subtest)
	}
	for _, literal := range literals {
		if strings.HasSuffix(literal, ".json") && slices.Contains(vectorNames(t, filepath.Join("testdata/vectors/logic", literal)), subtest) {
			return ""
		}
	}
	return "there is no such case"
}

// missingCase looks for a case, a file and perhaps one in it.
func missingCase(t *testing.T, folder, name string) string {
	t.Helper()
	file, name, inFile := strings.Cut(name, "/")
	path := strings.Replace(folder, "*", file, 1)
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return fmt.Sprintf("there is no %s", path)
	case !inFile,
		strings.HasSuffix(path, ".json") && slices.Contains(vectorNames(t, path), name),
		strings.Contains(string(text), "\n== "+name+"\n"):
		return ""
	}
	return fmt.Sprintf("no such case in %s", path)
}

// vectorNames returns the names of the cases in a file of vectors.
func vectorNames(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	type named struct{ Name string }
	var file struct{ Cases, Traces []named }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var names []string
	for _, c := range append(file.Cases, file.Traces...) {
		names = append(names, c.Name)
	}
	return names
}

func readTests(t *testing.T, pkg string) map[string][]string {
	t.Helper()
	folder := pkg
	if pkg == "ace" {
		folder = "."
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		literals := stringsIn(f)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = literals
			}
		}
	}
	return tests
}

func stringsIn(f *ast.File) []string {
	var all []string
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}
