package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// guideCommands finds the commands of a page, each up to what the shell does with
// it.
var guideCommands = regexp.MustCompile("(?m)(?:^|`)(ace [^`\n>#|]*)")

// TestNodeGuide: every command of the guide is one, with options that it has, and
// its configuration is in order.
func TestNodeGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/node/README.md")
	must(t, err)
	s := newStage(t)
	a := &app{io: s.io("")}
	root := a.root(nil)
	checked := 0
	for _, m := range guideCommands.FindAllStringSubmatch(string(text), -1) {
		words := strings.Fields(m[1])[1:]
		for i, w := range words {
			if w == "--" {
				words = words[:i]
				break
			}
		}
		c, rest, err := root.Find(words)
		if err != nil || c == root {
			t.Errorf("%s: %v", m[1], err)
			continue
		}
		if c.HasSubCommands() && a.answers[c] == nil {
			t.Errorf("%s: a command is missing", m[1])
		}
		for _, w := range rest {
			name, isOption := strings.CutPrefix(w, "--")
			if isOption && name != "help" && c.Flag(name) == nil {
				t.Errorf("%s: there is no %s", m[1], w)
			}
		}
		checked++
	}
	if checked < 30 {
		t.Errorf("only %d commands", checked)
	}
	_, example, _ := strings.Cut(string(text), "```toml\n")
	example, _, _ = strings.Cut(example, "```")
	var c config
	if err := c.read(s.write("config.toml", example)); err != nil || len(c.Policy.Rules) != 2 {
		t.Errorf("the configuration: %v", err)
	}
}
