package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestClean(t *testing.T) {
	for name, c := range map[string]struct {
		in, want string
		lines    bool
	}{
		"plain":               {"héllo 世界 👋", "héllo 世界 👋", false},
		"clear screen":        {"a\x1b[2Jb", `a\x1b[2Jb`, false},
		"clipboard":           {"\x1b]52;c;ZQ==\x07", `\x1b]52;c;ZQ==\x07`, false},
		"link":                {"\x1b]8;;http://x\x1b\\y", `\x1b]8;;http://x\x1b\y`, false},
		"C1 controls":         {"a\u009bb", `a\x9bb`, false},
		"direction":           {"a\u202eb\u2066c\u061c", `a\u202eb\u2066c\u061c`, false},
		"invisible":           {"a\u200bb\ufeff", `a\u200bb\ufeff`, false},
		"tags":                {"a\U000e0041", `a\ue0041`, false},
		"carriage return":     {"a\rb", `a\x0db`, true},
		"line break, kept":    {"a\n\tb", "a\n\tb", true},
		"line break, escaped": {"a\nb", `a\x0ab`, false},
		"bad UTF-8":           {"a\xffb", `a\ufffdb`, false},
	} {
		if got := clean(c.in, c.lines); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FuzzClean lets nothing through that a terminal acts on.
func FuzzClean(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range clean(s, false) {
			if unicode.IsControl(r) || hostile(r) {
				t.Fatalf("%q lets %U through", s, r)
			}
		}
	})
}

func TestFormatTime(t *testing.T) {
	const now = 1_760_140_800
	for name, c := range map[string]struct {
		t     int64
		style timeStyle
		want  string
	}{
		"none":      {0, timeRelative, "-"},
		"unix":      {now, timeUnix, "1760140800"},
		"rfc3339":   {now, timeRFC3339, "2025-10-11T00:00:00Z"},
		"now":       {now - 4, timeRelative, "now"},
		"past":      {now - 90, timeRelative, "90 s ago"},
		"future":    {now + 7200, timeRelative, "in 2 h"},
		"long past": {now - 10*86400, timeRelative, "10 d ago"},
	} {
		if got := formatTime(c.t, now, c.style, true); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCompleteID(t *testing.T) {
	ids := []string{"ace:sha256:" + strings.Repeat("a", 64), "ace:sha256:" + strings.Repeat("a", 13) + strings.Repeat("b", 51)}
	for name, c := range map[string]struct {
		typed, want string
		fails       bool
	}{
		"whole":     {ids[0], ids[0], false},
		"start":     {strings.Repeat("a", 14), ids[0], false},
		"shown":     {shortID(ids[1]), ids[1], false},
		"of both":   {strings.Repeat("a", 13), "", true},
		"too short": {strings.Repeat("a", 11), "", true},
		"of none":   {strings.Repeat("c", 12), "", true},
	} {
		got, err := completeID(c.typed, ids)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"timout": "timeout", "relay": "relay", "zzz": "", "defualt_identity": "default_identity"} {
		if got := nearest(word, configKeys()); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// TestCleanJSON shows that nothing a terminal acts on is left and that the
// document stays the same.
func TestCleanJSON(t *testing.T) {
	const hostileText = "a\u009b31m\u202e\U000e0041\u200b\ufeffé世"
	for _, text := range []string{"plain é", hostileText} {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := cleanJSON(data)
		if bytes.ContainsFunc(got, hostile) {
			t.Errorf("%q is not clean", got)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != text {
			t.Errorf("%q came back as %q: %v", text, back, err)
		}
	}
}

func TestIsIDPrefix(t *testing.T) {
	for typed, want := range map[string]bool{
		"0123456789ab": true, "0123456789a": false, "ace:sha256:01": true, "ace:sha256:xyz": false, "bob": false, "0123456789xyz": false,
	} {
		if got := isIDPrefix(typed); got != want {
			t.Errorf("%s: %v", typed, got)
		}
	}
}
