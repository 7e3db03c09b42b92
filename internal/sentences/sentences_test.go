package sentences_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/sentences"
)

const page = `<!-- Source: elsewhere -->

# 09 — A page

First. ` + "`second`" + ` is code. **Third** (see [09](/docs/x.y)). It ends e.g. here
1. One. Two.
- three
## Of more, and less

` + "```" + `
# no heading. No sentence.
` + "```" + `

| A | B |
|---|---|
| one. Two | three |
`

func TestSplit(t *testing.T) {
	want := []sentences.Sentence{
		{"09#09--a-page", "First."},
		{"09#09--a-page", "`second` is code."},
		{"09#09--a-page", "**Third** (see [09](/docs/x.y))."},
		{"09#09--a-page", "It ends e.g. here"},
		{"09#09--a-page", "1. One."},
		{"09#09--a-page", "Two."},
		{"09#09--a-page", "- three"},
		{"09#of-more-and-less", "# no heading. No sentence."},
		{"09#of-more-and-less", "| A | B |"},
		{"09#of-more-and-less", "| one. Two | three |"},
	}
	if got := sentences.Split("09", page); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestCompare(t *testing.T) {
	text := sentences.Split("09", "# A\n\nOne is here. Two is there.\n\n# B\n\nThree.")
	const (
		a     = "# A comment.\n\n09#a\n"
		one   = "1 \"One\" : pkg.TestA, pkg.TestB/case\n"
		two   = "2 \"Two\"\n  pkg.TestC/case, with a comma\n"
		b     = "\n09#b\n"
		three = "1 \"Three\" : - it says nothing\n"
	)
	for _, c := range []struct{ name, list, want string }{
		{"all", a + one + two + b + three, ""},
		{"ends early", a + one + two, "ends before sentence 1 of 09#b"},
		{"one left out", a + one + b + three, "sentence 2 of 09#a belongs here"},
		{"out of order", b + three + a + one + two, "sentence 1 of 09#a belongs here"},
		{"one too many", a + one + two + b + three + "2 \"Four\" : - no\n", "line 10: 09#b has no such sentence"},
		{"another quote", a + one + two + b + strings.Replace(three, "Three", "Tree", 1), "is not in sentence 1 of 09#b"},
		{"nobody and no reason", a + one + "2 \"Two\"\n" + b + three, "neither a test nor a reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := sentences.ParseList(c.list)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(sentences.Compare(list, text), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	long := sentences.Split("09", "# A\n\na b c d e f g h i")
	list, err := sentences.ParseList("09#a\n1 \"a b c d e f g h i\" : - no\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := sentences.Compare(list, long); len(got) != 1 {
		t.Errorf("a quote of nine words: %q", got)
	}
}

func TestParseList(t *testing.T) {
	list, err := sentences.ParseList("09#a\n1 \"One\" : pkg.TestA, pkg.TestB/case\n2 \"Two\"\n  pkg.TestC/case, with a comma\n3 \"Three\" : - why\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 || !slices.Equal(list[0].By, []string{"pkg.TestA", "pkg.TestB/case"}) ||
		!slices.Equal(list[1].By, []string{"pkg.TestC/case, with a comma"}) || list[2].Why != "why" || list[2].By != nil {
		t.Errorf("read as %+v", list)
	}
	for _, bad := range []string{"1 \"no section\" : x.TestX\n", "09#a\n1 no quote : x.TestX\n", "09#a\n  x.TestX\n", "09#a\none \"x\" : x.TestX\n"} {
		if _, err := sentences.ParseList(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
