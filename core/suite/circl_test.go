package suite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestCirclIsFenced holds circl.go to its comment: it alone imports circl, and
// every function in it begins with "defer clearUpper()".
func TestCirclIsFenced(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source files: %v", err)
	}
	checked := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !importsCircl(f) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if name != "circl.go" {
			t.Errorf("%s imports circl: only circl.go may", name)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			checked++
			if !defersClearUpper(fn) {
				t.Errorf("%s: %s does not begin with defer clearUpper()", name, fn.Name.Name)
			}
		}
	}
	if checked == 0 {
		t.Error("no function checked: the test is not looking at circl.go")
	}
}

func importsCircl(f *ast.File) bool {
	for _, imp := range f.Imports {
		if strings.HasPrefix(imp.Path.Value, `"github.com/cloudflare/circl/`) {
			return true
		}
	}
	return false
}

func defersClearUpper(fn *ast.FuncDecl) bool {
	if fn.Body == nil || len(fn.Body.List) == 0 {
		return false
	}
	d, ok := fn.Body.List[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	callee, ok := d.Call.Fun.(*ast.Ident)
	return ok && callee.Name == "clearUpper"
}
