package interop

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
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

// TestProgramEvalVectors sends every case of every wire file, one file after
// the other, through one run of the real program.
func TestProgramEvalVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vector files: %v", err)
	}
	type question struct {
		name string
		want wire.Value
		code bool // only the code is open
	}
	var questions []question
	var stdin bytes.Buffer
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".json")
		doc := loadVectors(t, file)
		for _, c := range doc.member(t, "cases").Items() {
			v := vector{c}
			name, _ := v.member(t, "name").AsString()
			codeOnly, _ := c.Get("codeOnly")
			questions = append(questions, question{
				kind + ": " + name, expand(t, v.member(t, "expect"), doc), codeOnly.Equal(wire.NewBool(true)),
			})
			line := facts(
				str("kind", kind),
				wire.M("input", expand(t, v.member(t, "input"), doc)),
				wire.M("now", doc.member(t, "now")),
			)
			stdin.Write(append(line.Canonical(), '\n'))
		}
	}
	answers := strings.Split(runProgram(t, &stdin, "interop", "eval"), "\n")
	if len(answers) != len(questions)+1 || answers[len(questions)] != "" {
		t.Fatalf("%d answers to %d lines", len(answers)-1, len(questions))
	}
	for i, q := range questions {
		if openEitherWay[q.name] || signedWithGivenRandomness[q.name] {
			continue
		}
		got, err := wire.Parse([]byte(answers[i]), maxEvalDepth)
		if err != nil {
			t.Fatalf("%s: %v", q.name, err)
		}
		if why := unsatisfied(q.want, got, q.code); why != "" {
			t.Errorf("%s: %s", q.name, why)
		}
	}
}

// runProgram runs ace, which has to exit 0 without a word on stderr, and
// returns what it prints. There is no home to look into.
func runProgram(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"ACE_TEST_PROGRAM=1"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("ace %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
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
		{"a text that does not parse and an unknown member", `{"kind":"kel","input":{"raw":"[","x":1},"now":1}`, cannot},
		{"arguments no object", `{"kind":"relay-auth","input":` + authInput(t, "[]") + `,"now":1760140800}`, `{"error":"invalid_argument"}`},
		{"stream IDs that are none", `{"kind":"identifiers","input":{"kind":"streamIdCompare","a":"1-","b":"1-1"},"now":1}`, `{"error":"invalid_argument"}`},
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

// authInput is the input of a valid request whose arguments are replaced.
func authInput(t *testing.T, arguments string) string {
	t.Helper()
	doc := loadVectors(t, filepath.Join(vectorDir, "relay-auth.json"))
	input := expand(t, vector{doc.member(t, "cases").Items()[0]}.member(t, "input"), doc)
	v, err := wire.Parse([]byte(arguments), 1)
	if err != nil {
		t.Fatal(err)
	}
	return string(input.With("args", v).Canonical())
}

// TestDriverEvalClocks: a broken clock has its own answer whatever else is
// wrong, and a log that was stored is not judged by the clock again.
func TestDriverEvalClocks(t *testing.T) {
	for _, c := range []struct {
		kind, member, now, want string
	}{
		{"kel", "", "-1", "invalid_argument"},
		{"kel-reconcile", "", "1.5", "invalid_argument"},
		{"packet-open", "", "-1", "invalid_argument"},
		{"permit", "", "9007199254740992", "invalid_argument"},
		{"contact", "", "-1", "invalid_argument"},
		{"receipt", "", "-1", "invalid_argument"},
		{"published-agent", "", "-1", "invalid_argument"},
		{"card-bundle", "", "-1", "invalid_argument"},
		{"delegation", "", "-1", "invalid_argument"},
		{"relay-auth", "", "-1", "invalid_argument"},
		{"registration", "", "-1", "invalid_argument"},
		{"published-agent", "pin", "0", "invalid_authorization"},
		{"registration", "stored", "0", "stale_timestamp"},
	} {
		line := `{"kind":"` + c.kind + `","input":` + acceptedInput(t, c.kind, c.member) + `,"now":` + c.now + "}\n"
		if got := evalLines(t, line); got[0] != `{"error":"`+c.want+`"}` {
			t.Errorf("%s %s at %s: %.100s, want %s", c.kind, c.member, c.now, got[0], c.want)
		}
	}
}

// acceptedInput is the first input of a kind that is accepted and has the named
// member, if one is named.
func acceptedInput(t *testing.T, kind, member string) string {
	t.Helper()
	doc := loadVectors(t, filepath.Join(vectorDir, kind+".json"))
	for _, c := range doc.member(t, "cases").Items() {
		v := vector{c}
		input := expand(t, v.member(t, "input"), doc)
		stated, _ := input.Get(member)
		_, accepted := v.member(t, "expect").Get("ok")
		if accepted && (member == "" || stated.Kind() != wire.Null) {
			return string(input.Without("now").Canonical())
		}
	}
	t.Fatalf("no accepted case of %s with %q", kind, member)
	return ""
}

// TestDriverEvalLongLines: a long line is answered, and one without bound is
// answered without being held in memory.
func TestDriverEvalLongLines(t *testing.T) {
	long := strings.Repeat("A", 4<<20)
	line := `{"kind":"base64","input":{"op":"decode","text":"` + long + `"},"now":1}`
	// Blanks after a whole value: what follows them has to count.
	endless := `{"kind":"base64","input":{"op":"encode","hex":"00"},"now":1}` + strings.Repeat(" ", maxEvalLine)
	var stdout bytes.Buffer
	in := io.MultiReader(strings.NewReader(line+"\n"), strings.NewReader(endless), strings.NewReader("x\n"+line))
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
