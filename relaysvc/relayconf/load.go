package relayconf

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
)

// fileLimit bounds a configuration file in bytes.
const fileLimit = 1 << 20

// Problem is something wrong with a configuration.
type Problem struct {
	// Where is the place: a file with its line, a variable or an option. It
	// is empty for what is missing altogether.
	Where string
	// Key is the setting, or what stands in its place.
	Key string
	// Text says what is wrong, in lower case.
	Text string
}

// String returns the problem on one line.
func (p Problem) String() string {
	text := p.Text
	if p.Key != "" {
		text = p.Key + ": " + text
	}
	if p.Where != "" {
		text = p.Where + ": " + text
	}
	return text
}

// Load takes the configuration together and checks it. The problems are all
// there are; with any of them, the configuration is not to be used.
func Load(src Source) (*Loaded, []Problem) {
	l := &loader{src: src, failed: map[string]bool{}, Loaded: &Loaded{file: src.File, origins: map[string]Origin{}, places: map[string]string{}, strays: strays(src.Environ)}}
	l.Settings = Settings{Listen: src.Listen, Data: src.Data, LogLevel: slog.LevelInfo, LogFormat: FormatText}
	read := src.File == "" || l.readFile()
	for _, k := range Keys() {
		if text, ok := src.Env(EnvName(k.Name)); ok && text != "" {
			l.set(k, FromEnv, EnvName(k.Name), k.setText(&l.Settings, text))
		}
	}
	for _, k := range Keys() {
		if text, ok := src.Flags[k.Name]; ok {
			l.set(k, FromFlag, "--"+k.Flag, k.setText(&l.Settings, text))
		}
	}
	if read { // without what the file says, much would seem to be wrong
		l.check()
	}
	return l.Loaded, l.problems
}

type loader struct {
	*Loaded
	src      Source
	problems []Problem
	failed   map[string]bool // by key: a value was not taken
}

// set notes where the value of a key came from, or why it was not taken.
func (l *loader) set(k Key, from Origin, where string, err error) {
	l.origins[k.Name] = from
	if from != FromFlag {
		l.origins[k.Name] += Origin(" " + where)
	}
	l.places[k.Name] = where
	if err != nil {
		l.failed[k.Name] = true
		l.problems = append(l.problems, Problem{where, k.Name, err.Error()})
	}
}

// refuse notes that the value of a key is wrong. One that was not taken in the
// first place is not missed again.
func (l *loader) refuse(key string, err error) {
	if err != nil && !l.failed[key] {
		l.problems = append(l.problems, Problem{l.places[key], key, err.Error()})
	}
}

// readFile takes over the file and reports whether it could be read at all. A
// key that no setting has is a problem.
func (l *loader) readFile() bool {
	text, err := readText(l.src.File)
	if err != nil {
		l.problems = append(l.problems, Problem{Where: l.src.File, Text: err.Error()})
		return false
	}
	tree := map[string]any{}
	if _, err := toml.Decode(text, &tree); err != nil {
		l.problems = append(l.problems, syntaxProblem(l.src.File, err))
		return false
	}
	l.readTable(text, nil, tree)
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return lineIn(a.Where) - lineIn(b.Where) })
	return true
}

func syntaxProblem(file string, err error) Problem {
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		return Problem{Where: file + ":" + strconv.Itoa(syntax.Position.Line), Text: syntax.Message}
	}
	return Problem{Where: file, Text: err.Error()}
}

func (l *loader) readTable(text string, path []string, table map[string]any) {
	for name, value := range table {
		path := append(path[:len(path):len(path)], name)
		key := joinKey(path)
		where := l.src.File + ":" + strconv.Itoa(lineOf(text, path))
		k, ok := keyNamed(key)
		inner, isTable := value.(map[string]any)
		switch {
		case ok:
			l.set(k, FromFile, where, k.setTOML(&l.Settings, value))
		case isTable && isPrefix(key):
			l.readTable(text, path, inner)
		case isPrefix(key):
			l.problems = append(l.problems, Problem{where, key, "is a table of settings, not a value"})
		default:
			l.problems = append(l.problems, Problem{where, key, "unknown key" + suggestion(key)})
		}
	}
}

// isPrefix reports whether a key is a table of settings.
func isPrefix(key string) bool {
	return slices.ContainsFunc(Keys(), func(k Key) bool { return strings.HasPrefix(k.Name, key+".") })
}

// readText returns a file of a bounded size. Opening a pipe does not wait for
// somebody to write to it.
func readText(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var e *os.PathError
		if errors.As(err, &e) {
			err = e.Err
		}
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	if err == nil && len(text) > fileLimit {
		err = fmt.Errorf("larger than %d bytes", fileLimit)
	}
	return string(text), err
}
