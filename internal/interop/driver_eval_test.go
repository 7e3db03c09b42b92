package interop

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

// evalLines sends the lines to `eval`, which has to exit 0, and returns the
// answers.
func evalLines(t *testing.T, stdin string) []string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := Main([]string{"eval"}, strings.NewReader(stdin), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
}

// TestDriverEvalVectors sends every case of every wire file through the stream.
func TestDriverEvalVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vector files: %v", err)
	}
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(kind, func(t *testing.T) {
			doc := loadVectors(t, file)
			cases := doc.member(t, "cases").Items()
			var stdin strings.Builder
			for _, c := range cases {
				line := facts(
					str("kind", kind),
					wire.M("input", expand(t, vector{c}.member(t, "input"), doc)),
					wire.M("now", doc.member(t, "now")),
				)
				stdin.Write(append(line.Canonical(), '\n'))
			}
			answers := evalLines(t, stdin.String())
			if len(answers) != len(cases) {
				t.Fatalf("%d answers to %d lines", len(answers), len(cases))
			}
			for i, c := range cases {
				v := vector{c}
				name, _ := v.member(t, "name").AsString()
				if openEitherWay[kind+": "+name] || signedWithGivenRandomness[kind+": "+name] {
					continue
				}
				got, err := wire.Parse([]byte(answers[i]), maxEvalDepth)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				codeOnly, _ := c.Get("codeOnly")
				want := expand(t, v.member(t, "expect"), doc)
				if why := unsatisfied(want, got, codeOnly.Equal(wire.NewBool(true))); why != "" {
					t.Errorf("%s: %s", name, why)
				}
			}
		})
	}
}

// TestDriverEvalLines: each line has its answer, whatever the line.
func TestDriverEvalLines(t *testing.T) {
	const cannot = `{"error":"cannot_evaluate"}`
	good := `{"kind":"base64","input":{"op":"encode","hex":"00"},"now":1}`
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct{ name, line, want string }{
		{"good", good, `{"ok":true,"text":"AA=="}`},
		{"spaces and a carriage return", " " + good + " \r", `{"ok":true,"text":"AA=="}`},
		{"empty", "", cannot},
		{"no json", "hello", cannot},
		{"a list", "[1]", cannot},
		{"unknown kind", `{"kind":"x","input":{},"now":1}`, cannot},
		{"unknown member of the line", `{"kind":"base64","input":{"op":"encode","hex":"00"},"now":1,"x":1}`, cannot},
		{"unknown member of the input", `{"kind":"base64","input":{"op":"encode","hex":"00","x":1},"now":1}`, cannot},
		{"unknown operation", `{"kind":"base64","input":{"op":"x"},"now":1}`, cannot},
		{"no input", `{"kind":"base64","now":1}`, cannot},
		{"input a list", `{"kind":"packet-decode","input":[],"now":1}`, cannot},
		{"no clock", `{"kind":"base64","input":{"op":"encode","hex":"00"}}`, cannot},
		{"clock a text", `{"kind":"base64","input":{"op":"encode","hex":"00"},"now":"1"}`, cannot},
		{"duplicate", `{"kind":"base64","kind":"base64","input":{},"now":1}`, cannot},
		{"object too deep by its own bound", `{"kind":"packet-decode","input":{"packet":{"ace":"1","x":` + deep + `}},"now":1}`, `{"error":"invalid_packet"}`},
		{"clock no time", `{"kind":"kel","input":{"kel":[]},"now":-1.5}`, `{"error":"invalid_argument"}`},
	} {
		answers := evalLines(t, c.line+"\n"+good+"\n")
		if len(answers) != 2 || answers[0] != c.want || answers[1] != `{"ok":true,"text":"AA=="}` {
			t.Errorf("%s: %q, want %s and one more", c.name, answers, c.want)
		}
	}
	if got := evalLines(t, good); len(got) != 1 {
		t.Errorf("a last line without an end: %q", got)
	}
	if got := evalLines(t, ""); len(got) != 1 || got[0] != "" {
		t.Errorf("nothing: %q", got)
	}
}

// TestDriverEvalLongLines: a long line is answered, and one without bound is
// answered without being held in memory.
func TestDriverEvalLongLines(t *testing.T) {
	long := strings.Repeat("A", 4<<20)
	line := `{"kind":"base64","input":{"op":"decode","text":"` + long + `"},"now":1}`
	endless := `{"kind":"` + strings.Repeat("A", maxEvalLine)
	var stdout bytes.Buffer
	in := io.MultiReader(strings.NewReader(line+"\n"), strings.NewReader(endless), strings.NewReader(endless), strings.NewReader("\n"+line))
	if status := Main([]string{"eval"}, in, &stdout, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	answers := strings.Split(stdout.String(), "\n")
	if len(answers) != 4 || answers[0] != answers[2] || !strings.Contains(answers[0], `"ok":true`) || answers[1] != `{"error":"cannot_evaluate"}` {
		t.Errorf("%d answers, the second %.80q", len(answers), answers[1])
	}
}

type brokenReader struct{}

var errBroken = errors.New("broken")

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestDriverEvalReportsItsStream(t *testing.T) {
	var stderr bytes.Buffer
	if status := Main([]string{"eval"}, brokenReader{}, io.Discard, &stderr); status != 1 || !strings.Contains(stderr.String(), "broken") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}
