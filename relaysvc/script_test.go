package relaysvc_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// scripts is the folder of the conformance scripts. Its README explains the
// format that this file and the other script_*_test.go read.
const scripts = "../testdata/relay"

// scriptCase is one case of a script: a name, what of the chapter it shows,
// and the lines to run.
type scriptCase struct {
	name  string
	cites []scriptCite
	lines []scriptLine
}

// scriptCite is a section and texts that occur in it.
type scriptCite struct {
	section string
	quotes  []string
}

type scriptLine struct {
	at   string // file and line number
	text string // without the blanks around it
	// under is true for a line that is indented: it belongs to the request
	// above it.
	under bool
}

var (
	quoted    = regexp.MustCompile(`"([^"]+)"`)
	isCite    = regexp.MustCompile(`^[0-9]{2}#[0-9a-z-]+`)
	variable  = regexp.MustCompile(`\$([A-Za-z][A-Za-z0-9]*)([+-][0-9]+)?`)
	arguments = regexp.MustCompile(`^([A-Za-z]+)([+-][0-9]+)?$`)
)

// readScripts returns the cases of every script by the name of its file
// without the ending.
func readScripts(t testing.TB) map[string][]scriptCase {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(scripts, "*.txt"))
	must(t, err)
	all := map[string][]scriptCase{}
	for _, name := range names {
		if base := filepath.Base(name); base != sentenceList {
			all[strings.TrimSuffix(base, ".txt")] = readScript(t, name)
		}
	}
	if len(all) == 0 {
		t.Fatal("no script")
	}
	return all
}

func readScript(t testing.TB, name string) []scriptCase {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	var cases []scriptCase
	for i, line := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", filepath.Base(name), i+1)
		trimmed := strings.TrimSpace(line)
		title, isCase := strings.CutPrefix(trimmed, "== ")
		switch {
		case trimmed == "" || trimmed[0] == '#':
		case isCase:
			cases = append(cases, scriptCase{name: title})
		case len(cases) == 0:
			t.Fatalf("%s: before the first case", at)
		case isCite.MatchString(trimmed):
			c := scriptCite{section: isCite.FindString(trimmed)}
			for _, q := range quoted.FindAllStringSubmatch(trimmed, -1) {
				c.quotes = append(c.quotes, q[1])
			}
			last := &cases[len(cases)-1]
			last.cites = append(last.cites, c)
		default:
			last := &cases[len(cases)-1]
			last.lines = append(last.lines, scriptLine{at, trimmed, line[0] == ' '})
		}
	}
	return cases
}

// TestScripts runs the conformance scripts, each case against a relay of its
// own.
func TestScripts(t *testing.T) {
	for name, cases := range readScripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { runCase(t, c) })
			}
		})
	}
}

func runCase(t *testing.T, c scriptCase) {
	if len(c.cites) == 0 || len(c.lines) == 0 {
		t.Fatal("a case needs a citation and lines")
	}
	p := newPlayer(t)
	for len(c.lines) > 0 {
		first := c.lines[0]
		p.at = first.at
		n := 1
		if strings.HasPrefix(first.text, "> ") {
			for n < len(c.lines) && (c.lines[n].under || strings.HasPrefix(c.lines[n].text, "< ")) {
				n++
			}
			p.exchange(c.lines[:n])
		} else {
			p.command(p.expand(first.text))
		}
		c.lines = c.lines[n:]
	}
	if p.relay == nil {
		t.Fatal("the case sends nothing")
	}
}

// player runs the lines of one case.
type player struct {
	*relay   // nil until the first line that needs it
	t        testing.TB
	at       string // the line that runs
	options  []func(*relaysvc.Config)
	folder   string // path of the relay's public URL
	audience string
	agents   map[string]*agent
	vars     map[string]string
	answers  map[string]answer
	requests map[string]call
	streams  map[string]*listening
	gateways map[string]*gateway
}

func newPlayer(t testing.TB) *player {
	return &player{
		t: t, agents: map[string]*agent{}, vars: map[string]string{}, answers: map[string]answer{},
		requests: map[string]call{}, streams: map[string]*listening{}, gateways: map[string]*gateway{},
	}
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s: %s", p.at, fmt.Sprintf(format, args...))
}

func (p *player) check(err error) {
	p.t.Helper()
	if err != nil {
		p.fail("%v", err)
	}
}

// running returns the relay, which starts with the first line that needs it.
func (p *player) running() *relay {
	p.t.Helper()
	if p.relay == nil {
		p.relay = start(p.t, func(c *relaysvc.Config) {
			c.PublicURL += p.folder
			for _, option := range p.options {
				option(c)
			}
		})
		p.audience = p.url + p.folder
	}
	return p.relay
}

func (p *player) clock() int64 { return p.running().now.Load() }

// agent returns the identity of that name, with a root, a next root and a
// delegation of long ago.
func (p *player) agent(name string) *agent {
	p.t.Helper()
	if p.agents[name] == nil {
		p.agents[name] = p.running().newAgent()
	}
	return p.agents[name]
}

// expand replaces the variables of a line.
func (p *player) expand(line string) string {
	p.t.Helper()
	return variable.ReplaceAllStringFunc(line, func(match string) string {
		m := variable.FindStringSubmatch(match)
		value := p.variable(m[1])
		if m[2] == "" {
			return value
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return value + m[2]
		}
		return wire.Decimal(n + p.number(m[2]))
	})
}

func (p *player) variable(name string) string {
	if value, ok := p.vars[name]; ok {
		return value
	}
	switch name {
	case "relay":
		p.running()
		return p.audience
	case "now":
		return wire.Decimal(p.clock())
	case "start":
		return wire.Decimal(epoch)
	case "long":
		return strings.Repeat("a", 512)
	case "garbage":
		return wire.EncodeBase64(suite.RandomBytes(wire.SignatureBytes))
	}
	return p.agent(name).aceID()
}

// time reads a time: now, start, either with a distance, or Unix seconds.
func (p *player) time(text string) int64 {
	p.t.Helper()
	m := arguments.FindStringSubmatch(text)
	if m != nil {
		text = p.expand("$" + text)
	}
	return p.number(text)
}

// command runs a line that is no request.
func (p *player) command(text string) {
	p.t.Helper()
	words := strings.Fields(text)
	for _, known := range commands {
		if m := known.form.FindStringSubmatch(text); m != nil {
			known.run(p, m[1:])
			return
		}
	}
	p.fail("no such command: %s", words[0])
}

// commands are the lines of a script that are no request.
var commands = []struct {
	form *regexp.Regexp
	run  func(p *player, args []string)
}{
	{form(`limit (\S+) (\d+)`), func(p *player, a []string) { p.limit(a[0], a[1]) }},
	{form(`timeout (\S+) (\S+)`), func(p *player, a []string) { p.timeout(a[0], a[1]) }},
	{form(`path (\S+)`), func(p *player, a []string) { p.folder = a[0] }},
	{form(`no trusted proxy`), func(p *player, _ []string) {
		p.option(func(c *relaysvc.Config) { c.TrustedProxies = nil })
	}},
	{form(`clock ([+-]\d+)`), func(p *player, a []string) { p.running().now.Add(p.number(a[0])) }},
	{form(`restart`), func(p *player, _ []string) { p.restart() }},
	{form(`registered: (.+)`), func(p *player, a []string) { p.each(a[0], p.register) }},
	{form(`published: (.+)`), func(p *player, a []string) { p.each(a[0], p.publish) }},
	{form(`queued: (\d+) from (\S+) to (\S+)`), func(p *player, a []string) { p.fill(a[0], a[1], a[2]) }},
	{form(`copy (\S+) as (\S+)`), func(p *player, a []string) { p.copy(a[0], a[1]) }},
	{form(`(\S+) delegates at (\S+)(?: until (\S+))?`), func(p *player, a []string) { p.delegate(a[0], a[1], a[2]) }},
	{form(`(\S+) rotates at (\S+)`), func(p *player, a []string) { p.rotate(a[0], a[1], (*kel.State).Rotate) }},
	{form(`(\S+) recovers at (\S+)`), func(p *player, a []string) { p.rotate(a[0], a[1], (*kel.State).Recover) }},
	{form(`stream (\S+) (connected|drain|comment|ends|closes)`), func(p *player, a []string) { p.stream(a[0], a[1]) }},
	{form(`stream (\S+) (catchup|message) (\S+)`), func(p *player, a []string) { p.streamed(a[0], a[1], a[2]) }},
	{form(`reserve (\S+)`), func(p *player, a []string) {
		p.option(func(c *relaysvc.Config) { c.ReservedHandles = append(c.ReservedHandles, a[0]) })
	}},
	{form(`token (\S+)`), func(p *player, a []string) { p.vars[a[0]] = suite.NewNonce() }},
	{form(`encode (\S+) as (\S+)`), func(p *player, a []string) { p.vars[a[1]] = url.QueryEscape(p.agent(a[0]).aceID()) }},
	{form(`gateway (\S+)`), func(p *player, a []string) { p.openGateway(a[0]) }},
	{form(`gateway (\S+) answers (.+)`), func(p *player, a []string) { p.gateways[a[0]].answers(strings.Fields(a[1])) }},
	{form(`gateway (\S+) gets (\S+)`), func(p *player, a []string) { p.woken(a[0], a[1]) }},
	{form(`metric (\S+) (\d+)`), func(p *player, a []string) { p.metric(a[0], a[1]) }},
	{form(`gateway (\S+) got nothing else`), func(p *player, a []string) { p.quiet(a[0]) }},
}

func form(pattern string) *regexp.Regexp { return regexp.MustCompile("^" + pattern + "$") }

func (p *player) number(text string) int64 {
	p.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	p.check(err)
	return n
}

func (p *player) copy(name, twin string) {
	p.t.Helper()
	a := *p.agent(name)
	p.agents[twin] = &a
}

// each runs do for every name of a list.
func (p *player) each(list string, do func(name string)) {
	p.t.Helper()
	for _, name := range strings.Fields(list) {
		do(name)
	}
}

// limit sets a field of relaysvc.Limits, by its name.
func (p *player) limit(name, value string) {
	p.t.Helper()
	n := p.number(value)
	p.option(func(c *relaysvc.Config) { p.field(reflect.ValueOf(&c.Limits), name).SetInt(n) })
}

// timeout sets a field of relaysvc.Timeouts, by its name.
func (p *player) timeout(name, value string) {
	p.t.Helper()
	d, err := time.ParseDuration(value)
	p.check(err)
	p.option(func(c *relaysvc.Config) { p.field(reflect.ValueOf(&c.Timeouts), name).SetInt(int64(d)) })
}

func (p *player) option(change func(*relaysvc.Config)) {
	p.t.Helper()
	if p.relay != nil {
		p.fail("the relay runs already")
	}
	p.options = append(p.options, change)
}

func (p *player) field(pointer reflect.Value, name string) reflect.Value {
	p.t.Helper()
	field := pointer.Elem().FieldByName(name)
	if !field.IsValid() {
		p.fail("no setting %s", name)
	}
	return field
}

// restart stops the relay and starts another one on its store.
func (p *player) restart() {
	p.t.Helper()
	p.running().stop()
	p.relay.run(func(c *relaysvc.Config) {
		c.PublicURL = p.audience
		for _, option := range p.options {
			option(c)
		}
	})
}

func (p *player) delegate(name, at, until string) {
	p.t.Helper()
	a := p.agent(name)
	end := int64(0)
	if until != "" {
		end = p.time(until)
	}
	a.signing = newKey()
	state, err := a.state.Delegate(a.root, a.signing.PublicKey(), p.time(at), end)
	p.check(err)
	a.state = state
}

// rotate appends a rot, and a dlg to a new signing key.
func (p *player) rotate(name, at string, extend func(*kel.State, *suite.SigningKey, string, int64) (*kel.State, error)) {
	p.t.Helper()
	a := p.agent(name)
	root, next := a.next, newKey()
	state, err := extend(a.state, root, commitment(next), p.time(at))
	p.check(err)
	a.state, a.root, a.next = state, root, next
	p.delegate(name, at, "")
}

// register, publish and fill bring about what a case begins with. They send
// the requests that the scripts of their sections test.

func (p *player) register(name string) {
	p.t.Helper()
	p.quick("POST /v1/register", "registration by "+name)
}

func (p *player) publish(name string) {
	p.t.Helper()
	p.register(name)
	p.quick("POST /v1/descriptor", "descriptor by "+name)
	p.quick("POST /v1/card", "card by "+name)
}

func (p *player) fill(count, from, to string) {
	p.t.Helper()
	for range p.number(count) {
		p.quick("POST /v1/send", "packet from "+from+" to "+to, "permit by "+to+" for "+from)
	}
}

func (p *player) quick(request string, under ...string) {
	p.t.Helper()
	lines := []scriptLine{{p.at, "> " + request, false}}
	for _, text := range under {
		lines = append(lines, scriptLine{p.at, text, true})
	}
	p.exchange(append(lines, scriptLine{p.at, "< 200 ok", false}))
}
