package relaysvc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// The traces of relay-send.json run against a real relay. Their names stand
// for identities with keys, and each of their bytes for bytesPerByte real ones,
// because a real packet has more than a thousand.
const bytesPerByte = 8

// strangersFrom is a rate that no trace reaches by itself.
const strangersFrom = 8

type sendTrace struct {
	Name      string
	Ambiguous bool
	Config    struct {
		Recipients       map[string]sendRecipient
		MaxNormalEntries int64 `json:"max_normal_entries"`
		MaxNormalBytes   int64 `json:"max_normal_bytes"`
	}
	Steps []sendStep
}

type sendRecipient struct {
	Registered        bool
	Blocked           []string
	Card              *string
	DescriptorExpires *int64 `json:"descriptor_expires"`
	CardKELCurrent    *bool  `json:"card_kel_current"`
	DescKELCurrent    *bool  `json:"descriptor_kel_current"`
}

type sendStep struct {
	Op     string
	Now    int64
	Packet *struct {
		Decode    string
		BytesID   string `json:"bytes_id"`
		From, To  string
		Timestamp int64
		Size      int
	}
	Permit    *sendPermit
	Network   string
	Body      string
	OverRate  bool `json:"over_rate"`
	Recipient string
	Values    struct {
		Blocked *[]string
		Card    *string
	}
	To       string
	BytesIDs []string `json:"bytes_ids"`
	Expect   struct {
		Status   int
		Error    *string
		Enqueued *string
		Queued   struct{ Normal, Stranger int }
	}
}

type sendPermit struct {
	Issuer, Subject     string
	IssuedAt, ExpiresAt int64
	Operational         string
}

func TestSendVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/logic/relay-send.json")
	must(t, err)
	var file struct {
		Description string
		Traces      []sendTrace
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	must(t, d.Decode(&file))
	if len(file.Traces) == 0 {
		t.Fatal("no trace")
	}
	for _, trace := range file.Traces {
		t.Run(trace.Name, func(t *testing.T) {
			p := newPlay(t, trace)
			for i, step := range trace.Steps {
				p.where = fmt.Sprintf("step %d", i)
				p.step(step)
			}
			if len(trace.Steps) == 0 {
				t.Fatal("no step")
			}
		})
	}
}

// play is a trace in progress.
type play struct {
	*relay
	t        *testing.T
	where    string
	agents   map[string]*agent // by name
	expires  map[string]int64  // of a recipient's newest descriptor
	wanted   map[string]int64  // its descriptor_expires
	packets  map[string][]byte // by what a trace says of it
	kind     map[string]string // of a packet: normal or stranger
	cards    map[string]int64  // issuedAt of the newest card record
	networks []string          // client networks named so far
	revision int64
}

func newPlay(t *testing.T, trace sendTrace) *play {
	p := &play{
		t: t, agents: map[string]*agent{}, expires: map[string]int64{}, wanted: map[string]int64{},
		packets: map[string][]byte{}, kind: map[string]string{}, cards: map[string]int64{},
	}
	p.relay = start(t, func(c *relaysvc.Config) {
		c.Limits.StrangersFrom = strangersFrom
		c.Limits.QueueEntries = trace.Config.MaxNormalEntries
		// The remainder is for what a packet has beyond its multiple.
		c.Limits.QueueBytes = trace.Config.MaxNormalBytes * bytesPerByte
		if c.Limits.QueueBytes > 0 {
			c.Limits.QueueBytes += bytesPerByte - 1
		}
		// The queue's own bounds are tried here, not a sender's share of it.
		c.Limits.SenderEntries, c.Limits.SenderBytes = c.Limits.QueueEntries, c.Limits.QueueBytes
	})
	for name, r := range trace.Config.Recipients {
		p.setUp(name, r)
	}
	p.now.Store(epoch)
	return p
}

// name returns the agent of that name.
func (p *play) name(name string) *agent {
	if p.agents[name] == nil {
		p.agents[name] = p.newAgent()
	}
	return p.agents[name]
}

func (p *play) setUp(name string, r sendRecipient) {
	p.t.Helper()
	p.now.Store(epoch - 200)
	a := p.name(name)
	p.expect("ok", a.register(epoch-200))
	current := func(b *bool) bool { return b == nil || *b }
	rotate := !current(r.CardKELCurrent) || !current(r.DescKELCurrent)
	for _, old := range []bool{true, false} {
		if !old && rotate {
			a.delegate(epoch - 300)
			p.expect("ok", a.register(epoch-100))
		}
		if r.Card != nil && old != current(r.CardKELCurrent) {
			p.publishCard(name, *r.Card)
		}
		if r.DescriptorExpires != nil && old != current(r.DescKELCurrent) {
			p.wanted[name] = *r.DescriptorExpires
			p.publishDescriptor(name)
			if !current(r.DescKELCurrent) {
				p.wanted[name] = 0
			}
		}
	}
	for _, peer := range r.Blocked {
		p.block(name, peer, true)
	}
	if !r.Registered {
		p.expect("ok", a.unregister(epoch-50))
		p.wanted[name] = 0
	}
}

func (p *play) publishCard(name, contact string) {
	p.t.Helper()
	previous, ok := p.cards[name]
	if !ok {
		previous = -1
	}
	a := p.agents[name]
	card := a.card(descriptor.CardRecord{Contact: contact}, previous)
	p.cards[name] = card.IssuedAt
	p.expect("ok", a.post("/v1/card", card.Raw()))
}

// publishDescriptor publishes one that expires when the trace says, or as late
// as a descriptor may: see renew.
func (p *play) publishDescriptor(name string) {
	p.t.Helper()
	a := p.agents[name]
	p.expires[name] = min(p.wanted[name], a.now.Load()+wire.MaxDescriptorLifetime)
	d, err := descriptor.Build(a.id(), descriptor.Fields{
		ExpiresAt: p.expires[name],
		Relays:    []string{a.url},
		Prekey:    prekey,
	}, a.now.Load(), -1, descriptor.Options{URLs: wire.Development})
	must(p.t, err)
	p.expect("ok", a.post("/v1/descriptor", d.Raw()))
}

// renew publishes descriptors again that the trace takes for unexpired.
func (p *play) renew() {
	p.t.Helper()
	for name, wanted := range p.wanted {
		if now := p.now.Load(); wanted > now && p.expires[name] <= now {
			p.publishDescriptor(name)
		}
	}
}

func (p *play) block(name, peer string, blocked bool) {
	p.t.Helper()
	p.revision++
	p.expect("ok", p.agents[name].block(p.name(peer).aceID(), blocked, p.revision))
}

func (p *play) step(s sendStep) {
	p.t.Helper()
	p.now.Store(s.Now)
	p.renew()
	about := s.To
	switch s.Op {
	case "send":
		p.send(s)
		about = s.Packet.To
	case "set":
		p.set(s)
		about = s.Recipient
	case "ack":
		p.ack(s)
	default:
		p.t.Fatalf("%s: unknown operation %q", p.where, s.Op)
	}
	normal, stranger := p.queued(about)
	if normal != s.Expect.Queued.Normal || stranger != s.Expect.Queued.Stranger {
		p.t.Fatalf("%s: %d normal and %d stranger entries, want %v", p.where, normal, stranger, s.Expect.Queued)
	}
}

func (p *play) set(s sendStep) {
	p.t.Helper()
	if s.Values.Card != nil {
		p.publishCard(s.Recipient, *s.Values.Card)
	}
	if s.Values.Blocked != nil {
		for peer := range p.agents {
			if peer != s.Recipient {
				p.block(s.Recipient, peer, slices.Contains(*s.Values.Blocked, peer))
			}
		}
	}
}

// ack acknowledges through the last of the named entries, which have to be the
// first of the queue.
func (p *play) ack(s sendStep) {
	p.t.Helper()
	a := p.agents[s.To]
	entries := a.messages()
	for i, id := range s.BytesIDs {
		ts, _ := entries[i].Packet.Get("timestamp")
		n, _ := ts.AsInt()
		if string(entries[i].Packet.Canonical()) != string(p.packets[packetKey(id, s.To, n)]) {
			p.t.Fatalf("%s: %s is not entry %d of the queue", p.where, id, i)
		}
	}
	p.expect("ok", a.ack(entries[len(s.BytesIDs)-1].StreamID))
}

// queued counts the entries of a queue by how they came in.
func (p *play) queued(name string) (normal, stranger int) {
	p.t.Helper()
	a := p.agents[name]
	if a == nil || a.inbox().outcome(p.t) == "not_registered" {
		return 0, 0
	}
	for _, e := range a.messages() {
		switch p.kind[string(e.Packet.Canonical())] {
		case "normal":
			normal++
		case "stranger":
			stranger++
		default:
			p.t.Fatalf("%s: an entry that was not accepted", p.where)
		}
	}
	return normal, stranger
}

func (p *play) send(s sendStep) {
	p.t.Helper()
	packet := p.packet(s)
	if s.OverRate {
		p.exhaust(s.Network)
	}
	if s.Expect.Enqueued != nil {
		p.kind[string(packet)] = *s.Expect.Enqueued
	}
	var permit []byte
	if s.Permit != nil {
		permit = p.permit(*s.Permit)
	}
	got := p.do(call{method: "POST", path: "/v1/send", body: p.body(s, packet, permit), network: p.address(s.Network)})
	want := "ok"
	if s.Expect.Error != nil {
		want = *s.Expect.Error
	}
	if got.outcome(p.t) != want || got.status != s.Expect.Status {
		p.t.Fatalf("%s: got %d %s, want %s", p.where, got.status, got.body, want)
	}
}

func (p *play) packet(s sendStep) []byte {
	p.t.Helper()
	key := packetKey(s.Packet.BytesID, s.Packet.To, s.Packet.Timestamp)
	if p.packets[key] == nil {
		from, to := p.name(s.Packet.From).aceID(), p.name(s.Packet.To).aceID()
		p.packets[key] = sized(from, to, s.Packet.Timestamp, s.Packet.Size*bytesPerByte)
	}
	packet := p.packets[key]
	switch s.Packet.Decode {
	case "ok":
	case "invalid_packet":
		packet = with(p.t, packet, "extra", wire.NewInt(1))
	case "unsupported_version":
		packet = with(p.t, packet, "ace", wire.NewString("2"))
	default:
		p.t.Fatalf("%s: decode %q", p.where, s.Packet.Decode)
	}
	return packet
}

func packetKey(bytesID, to string, timestamp int64) string {
	return fmt.Sprint(bytesID, " ", to, " ", timestamp)
}

// sized returns a packet of size bytes, or up to three more, because its
// payload grows by four. A size below the smallest packet gives that.
func sized(from, to string, ts int64, size int) []byte {
	const smallest = 28
	room := size - len(opaque(from, to, ts, smallest)) + wire.Base64Len(smallest)
	return opaque(from, to, ts, max(smallest, (room+3)/4*3))
}

func (p *play) body(s sendStep, packet, permit []byte) []byte {
	body := relayapi.SendBody(packet, permit)
	switch s.Body {
	case "", "ok":
	case "too_large":
		body = append(body, bytes.Repeat([]byte(" "), wire.MaxSendBodyBytes)...)
	case "not_json":
		body = body[1:]
	case "unknown_member":
		body = with(p.t, body, "extra", wire.NewInt(1))
	case "missing_packet":
		body = bytes.Replace(body, []byte(`"packet"`), []byte(`"parcel"`), 1)
	default:
		p.t.Fatalf("%s: body %q", p.where, s.Body)
	}
	return body
}

func (p *play) permit(s sendPermit) []byte {
	p.t.Helper()
	claims := wire.NewObject(
		wire.M("issuer", wire.NewString(p.name(s.Issuer).aceID())),
		wire.M("subject", wire.NewString(p.name(s.Subject).aceID())),
		wire.M("issuedAt", wire.NewInt(s.IssuedAt)),
		wire.M("expiresAt", wire.NewInt(s.ExpiresAt)),
	)
	action := kel.ActionDeliveryPermit
	if s.Operational == "fail" {
		action = kel.ActionAgentDescriptor
	}
	sig, err := p.name(s.Issuer).id().Sign(action, s.IssuedAt, claims.Canonical())
	must(p.t, err)
	return claims.With("signature", sig.Object()).Canonical()
}

// exhaust uses up the rate of a client network at other recipients.
func (p *play) exhaust(network string) {
	p.t.Helper()
	for {
		got := p.sendFrom(p.address(network), p.published().packet(strangerID()), nil)
		if got.outcome(p.t) == "rate_limited" {
			return
		}
		p.relay.expect("ok", got)
	}
}

// address returns an address in the client network of that name.
func (p *play) address(network string) string {
	if !slices.Contains(p.networks, network) {
		p.networks = append(p.networks, network)
	}
	return fmt.Sprintf("198.51.%d.1", slices.Index(p.networks, network))
}
