package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/fault"
)

func newManCmd(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "man [-o DIR] [PAGE]",
		Short:   "Print a manual page, or write them all",
		Example: "  ace man | man -l -\n  ace man -o man",
	}
	c.Flags().StringVarP(&dir, "output", "o", "", "write all pages to this `DIR`")
	return a.leaf(c, 0, 1, nil, func(_ context.Context, args []string) error { return runMan(a, c.Root(), args, dir) })
}

func runMan(a *app, root *cobra.Command, args []string, dir string) error {
	pages := a.manPages(root)
	if dir != "" {
		return writeFiles(dir, pages)
	}
	name := "ace.1"
	if len(args) == 1 {
		name = args[0]
	}
	page, ok := pages[name]
	if !ok {
		page, ok = pages[name+".1"]
	}
	if !ok {
		return usagef("no manual page %q", name)
	}
	_, err := a.io.Out.Write(page)
	return err
}

// writeFiles writes generated files, which are for everybody to read.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fault.Wrap(fault.StorageFailed, err)
		}
	}
	return nil
}

// manPages returns the manual, by file name: ace(1), one page for each command
// directly below it, and the topics of help.
func (a *app) manPages(root *cobra.Command) map[string][]byte {
	pages := map[string][]byte{"ace.1": a.manPage(root, 1)}
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		pages["ace-"+c.Name()+".1"] = a.manPage(c, 1)
	}
	for _, t := range topics() {
		at := topicPages[t.name]
		pages[fmt.Sprintf("%s.%d", at.name, at.section)] = topicPage(t, root, at)
	}
	return pages
}

// manPlace is where a page stands in the manual.
type manPlace struct {
	name    string
	section int
}

// topicPages gives each topic of help its page.
var topicPages = map[string]manPlace{
	"exit-codes":  {"ace-exit-codes", 7},
	"environment": {"ace-environment", 7},
	"json":        {"ace-json", 5},
	"config":      {"ace-config", 5},
	"operations":  {"ace-relay", 8},

	"audit-events": {"ace-audit-events", 7},
}

func manHead(w io.Writer, name, short string, section int) {
	fmt.Fprintf(w, ".TH %s %d \"\" ace \"ace manual\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), section, name, roff(lowerFirst(short)))
}

func topicPage(t topic, root *cobra.Command, at manPlace) []byte {
	var b, text bytes.Buffer
	manHead(&b, at.name, t.short, at.section)
	t.write(&text, root)
	b.WriteString(".SH DESCRIPTION\n.nf\n" + roff(strings.TrimSpace(text.String())) + "\n.fi\n")
	return b.Bytes()
}

// manPage renders a command and the commands below it.
func (a *app) manPage(c *cobra.Command, section int) []byte {
	var b bytes.Buffer
	manHead(&b, strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short, section)
	b.WriteString(".SH SYNOPSIS\n")
	for i, l := range a.leavesOf(c) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B %s\n", roff(usage(l)))
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(longText(c)))
	if !c.HasParent() {
		manCommands(&b, c)
	}
	for _, l := range a.leavesOf(c) {
		if c.HasParent() {
			manOptions(&b, l, l != c)
		}
	}
	if !c.HasParent() {
		b.WriteString(".SH OPTIONS\nAll commands take these.\n")
		manFlags(&b, c.PersistentFlags())
	}
	b.WriteString(".SH SEE ALSO\n.BR ace (1),\n.BR ace-exit-codes (7),\n.BR ace-environment (7),\n.BR ace-json (5),\n.BR ace-config (5),\n.BR ace-relay (8)\n")
	return b.Bytes()
}

// leavesOf returns the commands that a page describes: the command itself, unless
// it only holds others, and those below it.
func (a *app) leavesOf(c *cobra.Command) []*cobra.Command {
	if !c.HasParent() {
		return []*cobra.Command{c}
	}
	if !c.HasSubCommands() {
		return []*cobra.Command{c}
	}
	var leaves []*cobra.Command
	if _, isLeaf := a.answers[c]; isLeaf {
		leaves = append(leaves, c)
	}
	for _, sub := range c.Commands() {
		leaves = append(leaves, a.leavesOf(sub)...)
	}
	return leaves
}

func usage(c *cobra.Command) string {
	if !c.HasParent() {
		return "ace [options] command [arguments]"
	}
	return c.Parent().CommandPath() + " " + c.Use
}

func longText(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

func manCommands(b *bytes.Buffer, root *cobra.Command) {
	for _, g := range root.Groups() {
		fmt.Fprintf(b, ".SH %s\n", roff(strings.ToUpper(strings.TrimSuffix(g.Title, ":"))))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden {
				fmt.Fprintf(b, ".TP\n.BR ace-%s (1)\n%s\n", roff(c.Name()), roff(c.Short))
			}
		}
	}
}

// manOptions renders the options and examples of a command, below a heading of
// its own when the page has several commands.
func manOptions(b *bytes.Buffer, c *cobra.Command, titled bool) {
	if titled {
		fmt.Fprintf(b, ".SH %s\n%s", roff(strings.ToUpper(c.CommandPath())), paragraphs(longText(c)))
	}
	if c.HasLocalFlags() && c.LocalNonPersistentFlags().HasFlags() {
		if !titled {
			b.WriteString(".SH OPTIONS\n")
		}
		manFlags(b, c.LocalNonPersistentFlags())
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n" + roff(c.Example) + "\n.fi\n")
	}
}

func manFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "\\-\\-" + roff(f.Name)
		if f.Shorthand != "" {
			name = "\\-" + roff(f.Shorthand) + ", " + name
		}
		value, text := pflag.UnquoteUsage(f)
		switch {
		case f.Value.Type() == "count":
		case value != "" && f.NoOptDefVal != "":
			name += "[=" + roff(value) + "]"
		case value != "":
			name += " " + roff(value)
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", name, roff(text))
	})
}

// paragraphs turns help text into roff: an empty line starts a paragraph.
func paragraphs(text string) string {
	return strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n") + "\n"
}

// roff escapes text: a backslash, a hyphen that is to stay one, and a control
// character at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-").Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = "\\&" + l
		}
	}
	return strings.Join(lines, "\n")
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
