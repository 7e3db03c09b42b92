package relaysvc_test

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// draft is a request that is being written.
type draft struct {
	*player
	call
	parts   []*part
	edits   []edit // of the finished body
	pad     int    // bytes of the body at least
	auth    []string
	dropped []string // names of headers that are left out
	listen  string   // name of the stream
	lower   bool     // names of headers in lower case
}

// part is a protocol object of the body, as the script describes it.
type part struct {
	kind   string
	args   []string
	claims []edit // before it is signed
}

// edit sets a member to a value, or removes it.
type edit struct {
	path  []string
	value *wire.Value
}

// exchange runs a request, which is its first line with what is under it, and
// checks the answer against the other lines.
func (p *player) exchange(lines []scriptLine) {
	p.t.Helper()
	p.running()
	request, name := cutOption(strings.Fields(lines[0].text)[1:], "as")
	request, times := cutOption(request, "times")
	n := int64(1)
	if times != "" {
		n = p.number(times)
	}
	for i := range n {
		p.vars["i"] = wire.Decimal(i)
		for _, value := range values(lines) {
			p.vars["each"] = p.expand(value)
			p.once(request, name, lines)
		}
	}
}

// values returns those that a request is sent with, one after the other.
func values(lines []scriptLine) []string {
	for _, l := range lines {
		if list, ok := strings.CutPrefix(l.text, "each "); ok && l.under {
			all := strings.Split(list, " | ")
			for i := range all {
				if all[i] = strings.TrimSpace(all[i]); all[i] == "(empty)" {
					all[i] = ""
				}
			}
			return all
		}
	}
	return []string{""}
}

func (p *player) once(request []string, name string, lines []scriptLine) {
	p.t.Helper()
	rest, eventually := cutWord(request, "eventually")
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, stream := p.prepare(rest, lines)
		p.at = lines[0].at
		got := p.perform(c, stream)
		if eventually && !p.has(got, lines) && time.Now().Before(deadline) {
			continue
		}
		if name != "" {
			p.requests[name], p.answers[name] = c, got
		}
		p.verify(got, lines)
		return
	}
}

// prepare makes a request, or looks up the one that is to be sent again.
func (p *player) prepare(request []string, lines []scriptLine) (c call, stream string) {
	p.t.Helper()
	if request[0] != "again" {
		return p.write(request, lines)
	}
	c, ok := p.requests[request[1]]
	if !ok {
		p.fail("no request is named %s", request[1])
	}
	return c, ""
}

// verify checks the answer against the lines that say something about it.
func (p *player) verify(got answer, lines []scriptLine) {
	p.t.Helper()
	checked := false
	for _, l := range lines {
		if want, ok := strings.CutPrefix(l.text, "< "); ok {
			p.at = l.at
			p.expectation(got, p.expand(want), !checked)
			checked = true
		}
	}
	if !checked {
		p.fail("nothing is expected of this request")
	}
}

// has reports whether the answer has the status and code that are expected.
func (p *player) has(got answer, lines []scriptLine) bool {
	for _, l := range lines {
		if want, ok := strings.CutPrefix(l.text, "< "); ok {
			words := strings.Fields(want)
			code, _ := relayapi.ParseError(got.body)
			return wire.Decimal(int64(got.status)) == words[0] && (len(words) == 1 || got.status == http.StatusOK || code == words[1])
		}
	}
	return true
}

// write makes the request of some lines.
func (p *player) write(request []string, lines []scriptLine) (c call, stream string) {
	p.t.Helper()
	if len(request) != 2 {
		p.fail("a request has a method and a target")
	}
	d := &draft{player: p, call: call{method: p.expand(request[0]), path: p.expand(request[1]), plain: true, header: http.Header{}}}
	for _, l := range lines[1:] {
		if l.under {
			p.at = l.at
			d.line(p.expand(l.text))
		}
	}
	d.finish()
	return d.call, d.listen
}

// line takes in a line under a request.
func (d *draft) line(text string) {
	d.t.Helper()
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "registration", "descriptor", "card", "packet", "permit", "block", "unblock", "wake":
		d.parts = append(d.parts, &part{kind: word, args: strings.Fields(rest)})
	case "claim":
		last := d.parts[len(d.parts)-1]
		last.claims = append(last.claims, d.edit(rest))
	case "unclaim":
		last := d.parts[len(d.parts)-1]
		last.claims = append(last.claims, edit{path: strings.Split(rest, ".")})
	case "set":
		d.edits = append(d.edits, d.edit(rest))
	case "drop":
		d.edits = append(d.edits, edit{path: strings.Split(rest, ".")})
	case "body":
		d.body = []byte(rest)
	case "pad":
		d.pad = int(d.number(strings.TrimPrefix(rest, "to ")))
	case "each":
	case "chunked":
		d.chunked = true
	case "lowercase":
		d.lower = true
	case "from":
		d.network = rest
	case "listen":
		d.listen = strings.TrimPrefix(rest, "as ")
	case "signed":
		d.auth = strings.Fields(rest)
	case "header", "second":
		d.setHeader(word, strings.TrimPrefix(rest, "header "))
	case "no":
		d.dropped = append(d.dropped, strings.TrimPrefix(rest, "header "))
	default:
		d.fail("nothing under a request begins with %s", word)
	}
}

func (d *draft) edit(text string) edit {
	d.t.Helper()
	path, value, _ := strings.Cut(text, " ")
	v, err := wire.Parse([]byte(value), 100)
	d.check(err)
	return edit{strings.Split(path, "."), &v}
}

// A header of the script is kept under its own name until the request is
// complete, so that it replaces what the request would have.
const (
	replacing = "replace "
	beside    = "beside "
)

func (d *draft) setHeader(word, text string) {
	name, value, _ := strings.Cut(text, ": ")
	how := replacing
	if word == "second" {
		how = beside
	}
	d.header[how+name] = append(d.header[how+name], value)
}

// finish makes the body and the headers.
func (d *draft) finish() {
	d.t.Helper()
	written := d.header
	d.header = http.Header{}
	if len(d.parts) > 0 {
		value := d.object()
		for _, e := range d.edits {
			value = apply(value, e.path, e.value)
		}
		d.body = value.Canonical()
	}
	if n := d.pad - len(d.body); n > 0 {
		d.body = append(d.body, bytes.Repeat([]byte(" "), n)...)
	}
	if d.body != nil {
		d.header.Set("Content-Type", relayapi.MediaJSON)
	}
	if d.auth != nil {
		d.sign()
	}
	for name, values := range written {
		if name, ok := strings.CutPrefix(name, replacing); ok {
			d.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	for name, values := range written {
		if name, ok := strings.CutPrefix(name, beside); ok {
			key := http.CanonicalHeaderKey(name)
			d.header[key] = append(d.header[key], values...)
		}
	}
	for _, name := range d.dropped {
		d.header.Del(name)
	}
	if d.lower {
		for name, values := range d.header {
			delete(d.header, name)
			d.header[strings.ToLower(name)] = values
		}
	}
}

// object joins the parts of a body.
func (d *draft) object() wire.Value {
	d.t.Helper()
	if first := d.parts[0].kind; first != "packet" && first != "permit" {
		return d.build(d.parts[0])
	}
	send := wire.NewObject()
	for _, part := range d.parts {
		send = send.With(part.kind, d.build(part))
	}
	return send
}

// build makes one part, and remembers it when it has a name.
func (d *draft) build(part *part) wire.Value {
	d.t.Helper()
	args, name := cutOption(part.args, "as")
	if len(args) == 1 && (part.kind == "packet" || part.kind == "permit") {
		v, err := wire.Parse([]byte(d.variable(args[0])), wire.MaxJSONDepth)
		d.check(err)
		return v
	}
	v := d.builder(part.kind)(args, part.claims)
	if name != "" {
		d.vars[name] = string(v.Canonical())
	}
	return v
}

func (d *draft) builder(kind string) func([]string, []edit) wire.Value {
	switch kind {
	case "registration":
		return d.registration
	case "descriptor":
		return d.descriptor
	case "card":
		return d.card
	case "packet":
		return d.packet
	case "permit":
		return d.permit
	case "wake":
		return wakeBody
	}
	return func(args []string, _ []edit) wire.Value { return d.block(kind, args) }
}

func (d *draft) registration(args []string, _ []edit) wire.Value {
	d.t.Helper()
	a := d.agent(option(args, "by", ""))
	t := d.time(option(args, "at", "now"))
	audience := option(args, "for", d.audience)
	seq := a.state.Delegated().Seq
	payload := wire.EncodePayload(a.state.LastHash(), audience)
	return wire.NewObject(
		wire.M("aceId", wire.NewString(a.aceID())),
		wire.M("kel", a.state.Value()),
		wire.M("timestamp", wire.NewInt(t)),
		wire.M("audience", wire.NewString(audience)),
		wire.M("signature", d.signature(a, option(args, "action", kel.ActionRegisterRequest), t, seq, payload)),
	)
}

func (d *draft) descriptor(args []string, claims []edit) wire.Value {
	d.t.Helper()
	a := d.agent(option(args, "by", ""))
	t := d.time(option(args, "at", "now"))
	profiles := []wire.Value{}
	if id := option(args, "profile", ""); id != "" {
		profiles = append(profiles, wire.NewObject(wire.M("id", wire.NewString(id)), wire.M("digest", wire.NewString(suite.Hex256(nil)))))
	}
	object := wire.NewObject(
		wire.M("aceId", wire.NewString(a.aceID())),
		wire.M("issuedAt", wire.NewInt(t)),
		wire.M("expiresAt", wire.NewInt(d.time(option(args, "expires", "now+86400")))),
		wire.M("relays", wire.NewArray(wire.NewString(option(args, "relays", d.audience)))),
		wire.M("prekey", wire.NewObject(
			wire.M("id", wire.NewString(suite.Hex256(prekey))),
			wire.M("publicKey", wire.NewString(wire.EncodeBase64(prekey))),
		)),
		wire.M("profiles", wire.NewArray(profiles...)),
	)
	return d.document(a, "descriptor", kel.ActionAgentDescriptor, t, object, claims)
}

func (d *draft) card(args []string, claims []edit) wire.Value {
	d.t.Helper()
	a := d.agent(option(args, "by", ""))
	t := d.time(option(args, "at", "now"))
	contact, inner := "open", wire.NewObject()
	if slices.Contains(args, "closed") {
		contact = "closed"
	}
	if tag := option(args, "tag", ""); tag != "" {
		inner = inner.With("tags", wire.NewArray(wire.NewString(tag)))
	}
	object := wire.NewObject(
		wire.M("aceId", wire.NewString(a.aceID())),
		wire.M("issuedAt", wire.NewInt(t)),
		wire.M("home", wire.NewString(option(args, "home", d.audience))),
		wire.M("card", inner),
		wire.M("contact", wire.NewString(contact)),
		wire.M("listed", wire.NewBool(slices.Contains(args, "listed"))),
	)
	if handle := option(args, "handle", ""); handle != "" {
		object = object.With("handle", wire.NewString(handle))
	}
	return d.document(a, "card", kel.ActionCardRecord, t, object, claims)
}

// document signs the claims and puts them beside the KEL.
func (d *draft) document(a *agent, member, action string, t int64, claims wire.Value, edits []edit) wire.Value {
	d.t.Helper()
	for _, e := range edits {
		claims = apply(claims, e.path, e.value)
	}
	return wire.NewObject(wire.M("kel", a.state.Value()), wire.M(member, d.signed(a, action, t, claims)))
}

func (d *draft) permit(args []string, claims []edit) wire.Value {
	d.t.Helper()
	a := d.agent(option(args, "by", ""))
	t := d.time(option(args, "at", "now"))
	object := wire.NewObject(
		wire.M("issuer", wire.NewString(a.aceID())),
		wire.M("subject", wire.NewString(d.agent(option(args, "for", "")).aceID())),
		wire.M("issuedAt", wire.NewInt(t)),
		wire.M("expiresAt", wire.NewInt(d.time(option(args, "expires", "now+86400")))),
	)
	for _, e := range claims {
		object = apply(object, e.path, e.value)
	}
	return d.signed(a, kel.ActionDeliveryPermit, t, object)
}

// packet makes one that decodes. Nobody can open it or verify its signature.
func (d *draft) packet(args []string, _ []edit) wire.Value {
	d.t.Helper()
	from, to := d.agent(option(args, "from", "")).aceID(), d.agent(option(args, "to", "")).aceID()
	raw := opaque(from, to, d.time(option(args, "at", "now")), int(d.number(option(args, "payload", "64"))))
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	d.check(err)
	return v
}

func (d *draft) block(kind string, args []string) wire.Value {
	d.t.Helper()
	return wire.NewObject(
		wire.M("peer", wire.NewString(d.agent(args[0]).aceID())),
		wire.M("blocked", wire.NewBool(kind == "block")),
		wire.M("revision", wire.NewInt(d.number(option(args, "revision", "1")))),
	)
}

func wakeBody(args []string, _ []edit) wire.Value {
	return wire.NewObject(wire.M("gateway", wire.NewString(args[0])), wire.M("token", wire.NewString(args[1])))
}

// signed adds the delegated signature over claims.
func (d *draft) signed(a *agent, action string, t int64, claims wire.Value) wire.Value {
	d.t.Helper()
	return claims.With("signature", d.signature(a, action, t, a.state.Delegated().Seq, claims.Canonical()))
}

// signature signs as 02#signatures says, whatever the signer's KEL says of the
// time.
func (d *draft) signature(a *agent, action string, t, seq int64, payload []byte) wire.Value {
	d.t.Helper()
	value, err := a.signing.Sign(kel.Message(a.aceID(), t, wire.Decimal(seq), payload), action)
	d.check(err)
	return wire.Signature{Seq: seq, Value: value}.Object()
}

// sign sets the headers of 07#authentication.
func (d *draft) sign() {
	d.t.Helper()
	a := d.agent(option(d.auth, "by", ""))
	h := relayapi.Headers{
		ID:        a.aceID(),
		Timestamp: d.time(option(d.auth, "at", "now")),
		Seq:       a.state.Delegated().Seq,
		Audience:  option(d.auth, "audience", d.audience),
		Nonce:     d.nonce(option(d.auth, "nonce", "")),
	}
	if seq := option(d.auth, "seq", ""); seq != "" {
		h.Seq = d.number(seq)
	}
	action, payload := d.action(option(d.auth, "for", d.method+":"+d.path))
	message := kel.Message(h.ID, h.Timestamp, wire.Decimal(h.Seq), relayapi.AuthPayload(h.Audience, h.Nonce, payload))
	var err error
	h.Signature, err = a.signing.Sign(message, option(d.auth, "action", action))
	d.check(err)
	h.Apply(d.header)
}

// nonce returns the one of that name, and a fresh one without a name.
func (d *draft) nonce(name string) string {
	if name == "" {
		return suite.NewNonce()
	}
	if _, ok := d.vars[name]; !ok {
		d.vars[name] = suite.NewNonce()
	}
	return d.vars[name]
}

// action returns the action of a request, METHOD:TARGET, and its payload
// (02#signing-actions).
func (d *draft) action(request string) (string, []byte) {
	method, target, _ := strings.Cut(request, ":")
	path, rawQuery, _ := strings.Cut(target, "?")
	query, _ := url.ParseQuery(rawQuery)
	parameter := func(name, missing string) string {
		if query.Has(name) {
			return query.Get(name)
		}
		return missing
	}
	switch path {
	case "/v1/inbox":
		return kel.ActionInbox, wire.EncodePayload(parameter("since", "-"), parameter("limit", "100"))
	case "/v1/inbox/ack":
		return kel.ActionInboxAck, wire.EncodePayload(parameter("through", ""))
	case "/v1/listen":
		return kel.ActionListen, wire.EncodePayload(parameter("since", "-"))
	case "/v1/unregister":
		return kel.ActionUnregister, nil
	case "/v1/wake":
		if method == "DELETE" {
			return kel.ActionWake, nil
		}
		body, _ := wire.Parse(d.body, 100)
		return kel.ActionWake, wire.EncodePayload(text(body, "gateway"), text(body, "token"))
	case "/v1/blocks":
		body, _ := wire.Parse(d.body, 100)
		verb := "unblock"
		if blocked, _ := body.Get("blocked"); blocked.Equal(wire.NewBool(true)) {
			verb = "block"
		}
		revision, _ := body.Get("revision")
		return kel.ActionBlock, wire.EncodePayload(text(body, "peer"), verb, string(revision.Canonical()))
	}
	d.fail("no action for %s", path)
	return "", nil
}

// text returns a member that is a string, and "" for anything else.
func text(object wire.Value, member string) string {
	v, _ := object.Get(member)
	s, _ := v.AsString()
	return s
}

// option returns the word after name.
func option(args []string, name, missing string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return missing
}

// cutOption is option, and args without both words.
func cutOption(args []string, name string) (rest []string, value string) {
	i := slices.Index(args, name)
	if i < 0 || i+1 >= len(args) {
		return args, ""
	}
	return slices.Delete(slices.Clone(args), i, i+2), args[i+1]
}

// cutWord returns args without a word, and whether it was there.
func cutWord(args []string, word string) ([]string, bool) {
	i := slices.Index(args, word)
	if i < 0 {
		return args, false
	}
	return slices.Delete(slices.Clone(args), i, i+1), true
}

// apply returns v with the member at path set, or removed for nil. A number in
// the path is an index of an array.
func apply(v wire.Value, path []string, value *wire.Value) wire.Value {
	key := path[0]
	if v.Kind() == wire.Array {
		items := slices.Clone(v.Items())
		i, err := strconv.Atoi(key)
		switch {
		case err != nil || i >= len(items):
			return v
		case len(path) > 1:
			items[i] = apply(items[i], path[1:], value)
		case value == nil:
			items = slices.Delete(items, i, i+1)
		default:
			items[i] = *value
		}
		return wire.NewArray(items...)
	}
	if len(path) > 1 {
		inner, _ := v.Get(key)
		return v.With(key, apply(inner, path[1:], value))
	}
	if value == nil {
		return v.Without(key)
	}
	return v.With(key, *value)
}
