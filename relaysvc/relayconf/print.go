package relayconf

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is one value as it holds.
type Setting struct {
	Key    string
	Value  string // as the file has it
	Origin Origin
}

// Values returns the value of every key. None of them is a secret: keys and
// certificates are named by the paths of their files.
func (l *Loaded) Values() []Setting {
	var all []Setting
	for _, k := range Keys() {
		all = append(all, Setting{k.Name, k.format(&l.Settings), l.Origin(k.Name)})
	}
	return all
}

// TOML returns the whole configuration as a file that has the same effect, with
// the origin of each value.
func (l *Loaded) TOML() string {
	var b strings.Builder
	table := ""
	for _, v := range l.Values() {
		name := v.Key
		if t, last, ok := strings.Cut(v.Key, "."); ok {
			if t != table {
				table = t
				fmt.Fprintf(&b, "\n[%s]\n", t)
			}
			name = last
		}
		if v.Value == `""` {
			// Not set, which an empty text would not be.
			fmt.Fprintf(&b, "# %s is not set\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s = %s # %s\n", name, v.Value, v.Origin)
	}
	return b.String()
}

// Changes compares two configurations and returns the keys that differ, those
// that a running relay takes over apart from those that need a new start.
func Changes(before, after *Loaded) (live, restart []string) {
	for _, k := range Keys() {
		was, is := k.at(&before.Settings), k.at(&after.Settings)
		switch {
		case reflect.DeepEqual(was, is):
		case k.Live:
			live = append(live, k.Name)
		default:
			restart = append(restart, k.Name)
		}
	}
	return live, restart
}

// placeholders are the words for values that help shows, as a page has them.
var placeholders = strings.NewReplacer("`DIR`", "folder", "`ADDRESS`", "address", "`PATH`", "path", "`FILE`", "file", "`LEVEL`", "level", "`FORMAT`", "format", "`", "")

// Reference returns a table of every setting, as Markdown.
func Reference() string {
	defaults, _ := Load(Source{
		Env:    func(string) (string, bool) { return "", false },
		Flags:  map[string]string{"public_url": "https://relay.example"},
		Listen: DefaultListen, Data: "relay in the folder of all state",
	})
	defaults.PublicURL = ""
	var b strings.Builder
	b.WriteString("| key | variable | option | default | what it does |\n|---|---|---|---|---|\n")
	for _, k := range Keys() {
		option, value := "", k.format(&defaults.Settings)
		if k.Flag != "" {
			option = "`--" + k.Flag + "`"
		}
		if value == `""` {
			value = ""
		}
		if value != "" {
			value = "`" + value + "`"
		}
		doc := placeholders.Replace(k.Doc)
		if k.Live {
			doc += ". *Live*"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", k.Name, EnvName(k.Name), option, value, doc)
	}
	return b.String()
}
