package relaysvc_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// perform sends a request. With the name of a stream, an answer that is one is
// opened under it.
func (p *player) perform(c call, stream string) answer {
	p.t.Helper()
	req, err := http.NewRequest(c.method, p.url+c.path, bytes.NewReader(c.body))
	p.check(err)
	req.Header = c.header.Clone()
	if c.chunked {
		req.ContentLength = -1
	}
	if c.network != "" {
		req.Header.Set("X-Forwarded-For", c.network)
	}
	req.Host = req.Header.Get("Host")
	resp, err := p.client.Do(req)
	p.check(err)
	if stream != "" && resp.StatusCode == http.StatusOK {
		p.streams[stream] = p.follow(resp)
		return answer{resp.StatusCode, resp.Header, nil}
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == relayapi.MediaStream {
		return answer{resp.StatusCode, resp.Header, nil} // which has no end
	}
	body, err := io.ReadAll(resp.Body)
	p.check(err)
	return answer{resp.StatusCode, resp.Header, body}
}

// follow reads the events of a stream until it ends or the test does.
func (p *player) follow(resp *http.Response) *listening {
	l := &listening{t: p.t, events: make(chan event, 1000), close: resp.Body.Close}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(l.events)
		read(resp.Body, l.events)
	}()
	p.t.Cleanup(func() {
		resp.Body.Close()
		<-done
	})
	return l
}

// expectation checks one line about an answer, the first of which names its
// status and outcome.
func (p *player) expectation(got answer, line string, first bool) {
	p.t.Helper()
	words := strings.Fields(line)
	if first {
		p.status(got, words)
		return
	}
	switch word, rest := words[0], words[1:]; word {
	case "header":
		p.headerIs(got, strings.TrimPrefix(line, "header "))
	case "no":
		p.absent(got, rest)
	case "member":
		p.member(got, rest[0], strings.TrimSpace(strings.TrimPrefix(line, "member "+rest[0])))
	case "only":
		p.only(got, rest)
	case "packets":
		p.packets(got, rest)
	case "count":
		if n := len(p.list(got, rest[0])); int64(n) != p.number(rest[1]) {
			p.fail("%d %s", n, rest[0])
		}
	case "cards":
		p.cards(got, rest)
	case "is":
		if string(got.body) != p.variable(rest[0]) {
			p.fail("it is something else: %.300s", got.body)
		}
	case "same":
		other := p.answers[rest[1]]
		if got.status != other.status || !bytes.Equal(got.body, other.body) {
			p.fail("%d %s, but %s was %d %s", got.status, got.body, rest[1], other.status, other.body)
		}
	case "save":
		p.vars[rest[2]] = strings.Trim(string(p.lookUp(got, rest[0]).Canonical()), `"`)
	case "size":
		if n := int64(len(got.body)); n > p.number(rest[2]) {
			p.fail("%d bytes", n)
		}
	default:
		p.fail("nothing about an answer begins with %s", word)
	}
}

// status checks the status line of an answer and the form of its body
// (07#errors).
func (p *player) status(got answer, want []string) {
	p.t.Helper()
	if wire.Decimal(int64(got.status)) != want[0] {
		p.fail("got %d %.300s", got.status, got.body)
	}
	switch {
	case len(want) == 1:
	case want[1] == "stream":
		if got.header.Get("Content-Type") != relayapi.MediaStream {
			p.fail("content type %q", got.header.Get("Content-Type"))
		}
	case want[1] == "ok":
		if ok := p.lookUp(got, "ok"); !ok.Equal(wire.NewBool(true)) {
			p.fail("got %.300s", got.body)
		}
	default:
		p.refusal(got, want[1])
	}
}

func (p *player) refusal(got answer, code string) {
	p.t.Helper()
	v := p.json(got)
	if text(v, "error") != code {
		p.fail("got %d %.300s", got.status, got.body)
	}
	if relayapi.Statuses()[fault.Code(code)] != got.status {
		p.fail("%s has the status %d", code, got.status)
	}
	for _, m := range v.Members() {
		if _, isText := m.Value.AsString(); !isText || m.Key != "error" && m.Key != "message" {
			p.fail("member %s of a refusal", m.Key)
		}
	}
	if limited := got.status == http.StatusTooManyRequests; limited != (got.header.Get("Retry-After") != "") {
		p.fail("Retry-After %q", got.header.Get("Retry-After"))
	}
}

// json returns the body of an answer, which has to be JSON and called so.
func (p *player) json(got answer) wire.Value {
	p.t.Helper()
	if media := got.header.Get("Content-Type"); media != relayapi.MediaJSON {
		p.fail("content type %q: %.300s", media, got.body)
	}
	v, err := wire.Parse(got.body, wire.MaxResponseDepth)
	p.check(err)
	return v
}

// lookUp returns the member of a body at a path.
func (p *player) lookUp(got answer, path string) wire.Value {
	p.t.Helper()
	v := p.json(got)
	for _, key := range strings.Split(path, ".") {
		if v.Kind() == wire.Array {
			i := int(p.number(key))
			if i >= len(v.Items()) {
				p.fail("no member %s in %.300s", path, got.body)
			}
			v = v.Items()[i]
			continue
		}
		inner, ok := v.Get(key)
		if !ok {
			p.fail("no member %s in %.300s", path, got.body)
		}
		v = inner
	}
	return v
}

func (p *player) headerIs(got answer, line string) {
	p.t.Helper()
	name, pattern, ok := strings.Cut(line, " ~ ")
	if !ok {
		p.fail("header NAME ~ PATTERN")
	}
	if value := got.header.Get(name); !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(value) {
		p.fail("header %s: %q", name, value)
	}
}

func (p *player) absent(got answer, words []string) {
	p.t.Helper()
	if words[0] == "packets" {
		p.packets(got, nil)
		return
	}
	if value := got.header.Get(words[1]); value != "" {
		p.fail("header %s: %q", words[1], value)
	}
}

// member compares a member with JSON, or its text with ~ PATTERN.
func (p *player) member(got answer, path, want string) {
	p.t.Helper()
	v := p.lookUp(got, path)
	if pattern, ok := strings.CutPrefix(want, "~ "); ok {
		if s, _ := v.AsString(); !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(s) {
			p.fail("%s is %s", path, v.Canonical())
		}
		return
	}
	w, err := wire.Parse([]byte(want), wire.MaxResponseDepth)
	p.check(err)
	if !v.Equal(w) {
		p.fail("%s is %.200s", path, v.Canonical())
	}
}

func (p *player) only(got answer, names []string) {
	p.t.Helper()
	var have []string
	for _, m := range p.json(got).Members() {
		have = append(have, m.Key)
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		p.fail("members %v", have)
	}
}

func (p *player) list(got answer, member string) []wire.Value {
	p.t.Helper()
	return p.lookUp(got, member).Items()
}

// packets checks which packets an inbox page holds, in their order.
func (p *player) packets(got answer, names []string) {
	p.t.Helper()
	messages := p.list(got, "messages")
	if len(messages) != len(names) {
		p.fail("%d packets", len(messages))
	}
	for i, m := range messages {
		packet, _ := m.Get("packet")
		if string(packet.Canonical()) != p.variable(names[i]) {
			p.fail("packet %d is not %s", i, names[i])
		}
	}
}

// cards checks whose CardBundles a page of the directory holds. They are in the
// order of the ACE IDs, which the names of a script do not show.
func (p *player) cards(got answer, names []string) {
	p.t.Helper()
	var have, want []string
	for _, c := range p.list(got, "cards") {
		card, _ := c.Get("card")
		have = append(have, text(card, "aceId"))
	}
	for _, name := range names {
		want = append(want, p.agent(name).aceID())
	}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		p.fail("the cards of %v, want %v", p.names(have), names)
	}
}

func (p *player) names(ids []string) []string {
	var out []string
	for _, id := range ids {
		for _, name := range slices.Sorted(maps.Keys(p.agents)) {
			if p.agents[name].aceID() == id {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// stream checks the next event of a stream, or closes it.
func (p *player) stream(name, want string) {
	p.t.Helper()
	l := p.streams[name]
	if l == nil {
		p.fail("no stream %s", name)
	}
	switch want {
	case "closes":
		p.check(l.close())
	case "ends":
		if e, ok := l.next(); ok {
			p.fail("got %.200v, want the end", e)
		}
	case "comment":
		if e, ok := l.next(); !ok || e.name != ":" {
			p.fail("got %.200v (%v), want a comment", e, ok)
		}
	default:
		if e, ok := l.next(); !ok || e.name != want || e.id != "" {
			p.fail("got %.200v (%v), want %s", e, ok, want)
		}
	}
}

// streamed checks that the next event of a stream is a packet.
func (p *player) streamed(name, want, packet string) {
	p.t.Helper()
	e, ok := p.streams[name].next()
	if !ok || e.name != want || !wire.IsStreamID(e.id) || e.data != `{"packet":`+p.variable(packet)+`}` {
		p.fail("got %.200v (%v), want %s with %s", e, ok, want, packet)
	}
}
