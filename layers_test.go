package ace_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ace-toolkit/ace"

// layers lists every package of the module from the bottom up. A package may
// import only packages of a lower layer, and a package listed nowhere fails
// the test. The programs of bench/ measure the product and are no part of it.
var layers = [][]string{
	{"core/fault", "core/audit", "internal/faultdisk", "internal/sentences", "internal/span", "internal/spelling"},
	{"core/wire", "core/suite", "core/ownerfile", "core/dial", "core/sqlconn", "internal/failpoint"},
	{"core/kel", "core/policy", "core/profile", "core/prekey", "core/safety", "core/store", "relaysvc/packetlog"},
	{"core/packet", "core/descriptor", "core/profile/delegation", "core/profile/commerce", "keystore", "relaysvc/relaydb"},
	{"core/admission", "core/relayapi"},
	{"core/relayclient", "core/delivery", "relaysvc"},
	{"core", "relaysvc/loadgen", "relaysvc/relayadmin", "relaysvc/relayconf"},
	{"internal/interop", "internal/echo", "internal/handler"},
	{"internal/cli"},
	{"cmd/ace"},
}

// forbidden lists imports that the order of the layers alone would allow.
var forbidden = map[string][]string{
	"core/wire":  {"core/fault"},
	"core/suite": {"core/fault"},
	"core":       {"keystore", "relaysvc", "relaysvc/relaydb"},
	// 08#sender-state-and-busy-threads: the pipeline has no branch for a profile.
	"core/delivery":    {"keystore", "relaysvc/relaydb", "core/relayapi", "core/profile/commerce", "core/profile/delegation"},
	"core/relayclient": {"core/store", "core/prekey", "keystore", "relaysvc/relaydb"},
	"relaysvc":         {"core/store", "core/prekey", "keystore"},
}

// owners lists every third-party module that the product links and the
// packages that may import it. A module listed nowhere fails the test.
var owners = map[string][]string{
	"github.com/cloudflare/circl": {"core/suite"},
	"golang.org/x/crypto":         {"core/suite", "keystore"},
	"golang.org/x/sys":            {"core/suite", "keystore", "internal/cli", "internal/handler"},
	"golang.org/x/term":           {"internal/cli"},
	"modernc.org/libc":            {"core/sqlconn", "internal/faultdisk"},
	"modernc.org/sqlite":          {"core/sqlconn", "relaysvc/relaydb", "internal/faultdisk"},
	"github.com/spf13/cobra":      {"internal/cli"},
	"github.com/spf13/pflag":      {"internal/cli"},
	"github.com/BurntSushi/toml":  {"internal/cli", "relaysvc/relayconf"},
	"github.com/itchyny/gojq":     {"internal/cli"},
}

// Packages of the layers below pureBelow reach no file, socket, log or random
// source: they get bytes, state and a clock reading as arguments. Those in
// impure are the exceptions, each for the one thing it is there to reach.
const pureBelow = 5

var (
	impure  = []string{"core/ownerfile", "core/dial", "core/sqlconn", "internal/failpoint", "core/store", "relaysvc/packetlog", "relaysvc/relaydb", "keystore"}
	effects = []string{"os", "os/exec", "os/signal", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "database/sql"}
)

// exempt lists what a pure package may import all the same: the suite draws
// the random bytes, and its secrets tell slog what to print in their place.
var exempt = map[string][]string{"core/suite": {"crypto/rand", "log/slog"}}

// TestLayers reads the imports itself. Asking "go list" would not do: the test
// cache follows the files that a test opens, not those that a child process
// reads, and so a forbidden import added later would be reported as cached ok.
func TestLayers(t *testing.T) {
	level := map[string]int{}
	for i, layer := range layers {
		for _, pkg := range layer {
			level[pkg] = i
		}
	}
	files := productFiles(t)
	if len(files) == 0 {
		t.Fatal("no package found: the test does not look at the module")
	}
	for _, name := range files {
		pkg := path.Dir(name)
		if _, ok := level[pkg]; !ok {
			t.Errorf("%s: package %s is in no layer: give it a place here and in ARCHITECTURE.md", name, pkg)
			continue
		}
		for _, imp := range importsOf(t, name) {
			if why := refuse(pkg, imp, level); why != "" {
				t.Errorf("%s: %s must not import %s: %s", name, pkg, imp, why)
			}
		}
	}
}

// refuse tells why pkg must not import imp, or returns "" when it may.
func refuse(pkg, imp string, level map[string]int) string {
	if dep, ok := strings.CutPrefix(imp, module+"/"); ok {
		return refuseOwn(pkg, dep, level)
	}
	if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
		return refuseForeign(pkg, imp)
	}
	pure := level[pkg] < pureBelow && !slices.Contains(impure, pkg)
	if pure && slices.Contains(effects, imp) && !slices.Contains(exempt[pkg], imp) {
		return fmt.Sprintf("packages below layer %d have no effects", pureBelow)
	}
	return ""
}

func refuseOwn(pkg, dep string, level map[string]int) string {
	at, ok := level[dep]
	switch {
	case !ok:
		return "it is in no layer"
	case at >= level[pkg]:
		return fmt.Sprintf("layer %d does not look at layer %d", level[pkg], at)
	case slices.Contains(forbidden[pkg], dep):
		return "the pair is forbidden"
	}
	return ""
}

func refuseForeign(pkg, imp string) string {
	for mod, pkgs := range owners {
		if imp != mod && !strings.HasPrefix(imp, mod+"/") {
			continue
		}
		if slices.Contains(pkgs, pkg) {
			return ""
		}
		return fmt.Sprintf("only %s may", strings.Join(pkgs, ", "))
	}
	return "the module has no owner here"
}

// productFiles returns the non-test Go files of the module, with slashes.
func productFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, name := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "bench/") {
			files = append(files, name)
		}
	}
	return files
}

// goFiles returns every Go file of the module, tests included, with slashes.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != "." && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (d.Name() == "testdata" || hidden) {
			return fs.SkipDir
		}
		if !d.IsDir() && !hidden && strings.HasSuffix(name, ".go") {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func importsOf(t *testing.T, name string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		imports = append(imports, imp)
	}
	return imports
}
