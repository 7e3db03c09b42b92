package relayconf

import (
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/internal/spelling"
)

// FileVariable is the variable that names the configuration file.
const FileVariable = envPrefix + "CONFIG"

// Strays returns a problem for each variable of the environment that looks like
// one of a setting and is none. They are no reason not to start: what runs a
// relay may set variables of its own.
func (l *Loaded) Strays() []Problem { return l.strays }

// strays finds them in an environment of lines NAME=VALUE.
func strays(environ []string) []Problem {
	known := map[string]bool{FileVariable: true}
	for _, k := range Keys() {
		known[EnvName(k.Name)] = true
	}
	var all []Problem
	cluster := slices.ContainsFunc(environ, func(line string) bool { return strings.HasPrefix(line, envPrefix+"SERVICE_HOST=") })
	for _, line := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(line, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if ok && value != "" && !known[name] && !(cluster && isLink(rest)) {
			all = append(all, Problem{Where: name, Text: "no setting has this variable" + variableMeant(rest)})
		}
	}
	return all
}

// isLink reports whether a variable is one of those that Kubernetes sets in
// every container for a service with the name ace-relay.
func isLink(rest string) bool {
	return rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
}

// variableMeant offers the variable whose name is nearest, or nothing.
func variableMeant(rest string) string {
	variable := func(key string) string { return strings.TrimPrefix(EnvName(key), envPrefix) }
	rest = strings.ToUpper(rest)
	most := min(3, len(rest)/3) // of three letters, three others are not what was meant
	if spelling.Nearest(rest, []string{variable("config")}, most) != "" {
		return ": did you mean " + FileVariable + "?"
	}
	if key := nearest(rest, most, variable); key != "" {
		return ": did you mean " + EnvName(key) + "?"
	}
	return ""
}

// suggestion offers the setting whose name is nearest to a key, or nothing.
func suggestion(key string) string {
	near := nearest(key, 3, func(name string) string { return name })
	if near == "" {
		return ""
	}
	return `: did you mean "` + near + `"?`
}

// nearest returns the setting whose name, with or without its table, is spelt
// nearest to a word, "" when each differs by more than most edits.
func nearest(word string, most int, spelt func(string) string) string {
	var names []string
	full := map[string]string{}
	for _, k := range Keys() {
		for _, name := range []string{k.Name, k.Name[strings.LastIndexByte(k.Name, '.')+1:]} {
			if name = spelt(name); full[name] == "" {
				names, full[name] = append(names, name), k.Name
			}
		}
	}
	return full[spelling.Nearest(word, names, most)]
}
