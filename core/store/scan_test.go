package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

// bounded are the tables that stay small, and what keeps them so.
var bounded = map[string]string{
	"counter":      "one row a name in this package",
	"note":         "one row a name in this package",
	"own":          "two documents",
	"registration": "one row a relay of the owner's",
	"request":      "as many as 05#flow step 2 holds",
	"fetch":        "maxFetches",
	"quarantine":   "maxQuarantine",
	"audit":        "AuditBounds",
}

// reads are the functions that read a table that grows from one end to the
// other: why they may, and the files that may call them. Upkeep, receiving and
// sending are in none of these.
var reads = map[string]struct {
	why   string
	files []string
}{
	"Contacts":         {"the owner lists them; before a new key they are counted", []string{"core/contacts.go", "core/newkey.go"}},
	"CountPermits":     {"before a new key those that it ends are counted", []string{"core/newkey.go"}},
	"Permits":          {"the owner lists them", []string{"core/delivery/permits.go"}},
	"Pinned":           {"the owner lists them", []string{"core/peers.go"}},
	"Names":            {"beside a list of the owner's", []string{"core/inbox.go", "core/send.go", "core/permits.go", "core/contacts.go", "core/peers.go", "core/blocks.go", "core/audit.go"}},
	"OutboxEntries":    {"the owner lists them", []string{"core/send.go"}},
	"Messages":         {"the owner lists them, the newest first", []string{"core/inbox.go"}},
	"FirstMessage":     {"somebody waits for it: of the unhandled ones, which an index has", []string{"core/watch.go"}},
	"Handlings":        {"the owner lists them", []string{"core/handling.go"}},
	"SetAllHandled":    {"the owner marks all of them", []string{"core/handling.go"}},
	"CountPending":     {"the status counts those without an outcome", []string{"core/status.go"}},
	"SeenEntries":      {"tests compare them", nil},
	"snapshotRules":    {"a backup goes through a copy of its own", nil},
	"CountDamaged":     {"the owner has the store examined", []string{"core/watch.go"}},
	"read":             {"the owner has the store examined", nil},
	"ReadKnown":        {"offered to somebody who types, on a connection of its own", nil},
	"Snapshot":         {"a backup goes through a copy of its own", nil},
	"CheckSnapshot":    {"a backup is checked to its last page", nil},
	"HasHistory":       {"it looks for one row", []string{"core/delivery/dedup.go"}},
	"SenderHorizons":   {"in the order of an index, as many as are folded", []string{"core/delivery/dedup.go"}},
	"SmallestSeen":     {"the first of an index", []string{"core/delivery/dedup.go"}},
	"SeenState":        {"the first of an index, and whether there is a row", []string{"core/delivery/dedup.go"}},
	"AddWithheld":      {"maxWithheld bounds them, and it looks only when there may be so many", []string{"core/delivery/policy.go"}},
	"CountQuarantined": {"the status counts what waits for the owner", []string{"core/status.go"}},
	"WithheldMessages": {"the owner lists them", []string{"core/quarantine.go"}},
}

// built are the statements that functions put together when they run.
var built = map[string][]string{
	"Messages":     {"SELECT seq FROM (SELECT seq, " + messageColumns + " FROM message WHERE received_at >= ? AND peer = ? ORDER BY seq DESC LIMIT ?) ORDER BY seq"},
	"FirstMessage": {"SELECT seq FROM message WHERE received_at >= ? AND peer = ? AND handled = 0 ORDER BY seq LIMIT 1 OFFSET ?"},
	"Threads": {"SELECT " + threadColumns + " FROM thread WHERE profile = ? ORDER BY head_at, peer, thread_id",
		"SELECT " + threadColumns + " FROM thread WHERE profile = ? AND peer = ? ORDER BY head_at, peer, thread_id"},
	"PendingOn": {`SELECT message_id FROM outbox WHERE peer = ? AND thread_id = ? AND thread_id <> '' AND state = 'pending'
		AND (attempts = 0 OR first_attempt_at > ?) AND type IN (?, ?, ?) LIMIT 1`},
	"migrateFrom": nil, // once in the life of a store
}

// What upkeep, receiving and sending ask of the store costs what they get,
// however many peers and messages there are: no statement of the package reads a
// table that grows from one end to the other, but for those named above.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	statements := statementsOf(t)
	if len(statements) < 60 {
		t.Fatalf("statements of %d functions: the test does not look at the package", len(statements))
	}
	scanning := map[string]bool{}
	for _, function := range slices.Sorted(maps.Keys(statements)) {
		for _, sql := range statements[function] {
			for _, step := range planOf(t, s, sql) {
				if !scansWhatGrows(step) {
					continue
				}
				scanning[function] = true
				if _, ok := reads[function]; !ok {
					t.Errorf("%s: %s\n\t%s", function, step, sql)
				}
			}
		}
	}
	for function := range reads {
		if !scanning[function] {
			t.Errorf("%s reads no whole table: it needs no exception", function)
		}
	}
}

// Only who is named calls what reads a whole table.
func TestWhoReadsAWholeTable(t *testing.T) {
	for _, dir := range []string{"..", "../delivery", "../../internal/cli", "../profile/commerce", "../profile/delegation"} {
		for name, file := range filesOf(t, dir) {
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Join("core/store", name)), "/")
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || fmt.Sprint(f.X) != "tx" && fmt.Sprint(f.X) != "&{s tx}" {
					return true
				}
				if r, ok := reads[f.Sel.Name]; ok && !slices.Contains(r.files, name) {
					t.Errorf("%s calls %s, which reads a whole table", name, f.Sel.Name)
				}
				return true
			})
		}
	}
}

var scan = regexp.MustCompile(`^SCAN (\S+)`)

// scansWhatGrows reports whether a step of a plan goes through a table that is
// not bounded.
func scansWhatGrows(step string) bool {
	m := scan.FindStringSubmatch(step)
	return m != nil && m[1] != "CONSTANT" && !strings.HasPrefix(m[1], "(") && bounded[m[1]] == ""
}

func planOf(t *testing.T, s *Store, sql string) (steps []string) {
	t.Helper()
	err := s.View(t.Context(), func(tx *Tx) error {
		q, err := tx.conn.Prepare("EXPLAIN QUERY PLAN " + sql)
		if err != nil {
			return err
		}
		defer q.Reset()
		for {
			more, err := q.Step()
			if err != nil || !more {
				return err
			}
			var id, parent, unused int64
			var step string
			if err := q.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			steps = append(steps, step)
		}
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return steps
}

func filesOf(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}

// statementsOf returns the SQL statements in the source of the package, by the
// function or variable that they are in.
func statementsOf(t *testing.T) map[string][]string {
	t.Helper()
	files, constants, found := filesOf(t, "."), map[string]ast.Expr{}, map[string][]string{}
	eachDeclaration(files, func(name string, n ast.Node, constant bool) {
		if e, ok := n.(ast.Expr); ok && constant {
			constants[name] = e
		}
	})
	eachDeclaration(files, func(name string, n ast.Node, constant bool) {
		if constant {
			return
		}
		ast.Inspect(n, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, whole := fold(e, constants)
			switch _, isBuilt := built[name]; {
			case !isSQL(text):
				return true
			case isBuilt:
			case whole:
				found[name] = append(found[name], text)
			default:
				t.Errorf("%s builds a statement, of which the test has no example: %.60s", name, text)
			}
			return false
		})
	})
	for name, statements := range built {
		found[name] = append(found[name], statements...)
	}
	return found
}

// eachDeclaration visits the functions, and the values of constants and
// variables.
func eachDeclaration(files map[string]*ast.File, visit func(name string, n ast.Node, constant bool)) {
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				visit(d.Name.Name, d, false)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == 1 {
						visit(v.Names[0].Name, v.Values[0], d.Tok == token.CONST)
					}
				}
			}
		}
	}
}

// fold returns the text of an expression, and whether that is all of it.
func fold(e ast.Expr, constants map[string]ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		if value, ok := constants[e.Name]; ok {
			return fold(value, constants)
		}
	case *ast.BinaryExpr:
		x, all := fold(e.X, constants)
		y, rest := fold(e.Y, constants)
		return x + y, all && rest && e.Op == token.ADD
	}
	return "", false
}

func isSQL(text string) bool {
	verb, _, _ := strings.Cut(text, " ")
	return slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, verb)
}
