package delivery_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicAdmission covers chapter 05: each step of a trace is a real packet or
// a call of a real node. The traces of a relay run in relaysvc.
func TestLogicAdmission(t *testing.T) {
	runLogic(t, "blocks-admission.json", admissionAnswer, func(t *testing.T, config *wire.Reader, _ []wire.Value) step {
		if config.String("role") == "relay" {
			t.Skip("a relay's: relaysvc runs it")
		}
		return newAdmissionTrace(t, config).step
	})
}

func admissionAnswer(t *testing.T, r *wire.Reader) wire.Value {
	switch kind := r.String("kind"); kind {
	case "revision":
		previous := int64(admission.NoRevision)
		if v := r.Value("previous"); v.Kind() != wire.Null {
			previous, _ = v.AsInt()
		}
		revision, err := admission.NextRevision(previous, r.Int("now"))
		if err != nil {
			t.Fatal(err)
		}
		return wire.NewObject(wire.M("revision", wire.NewInt(revision)))
	case "note":
		c := admission.Contact{Kind: admission.Rejected, Profile: profile.TextID, Note: r.String("note")}
		return wire.NewObject(wire.M("valid", wire.NewBool(c.CheckMembers() == nil)))
	case "contact_body":
		body := r.Value("body")
		if p, _ := body.Get("profile"); p.Equal(wire.NewString("p")) {
			body = body.With("profile", wire.NewString(profile.TextID)) // "p" is a symbol
		}
		c, err := admission.DecodeContact(body)
		if err == nil {
			err = c.CheckMembers()
		}
		return wire.NewObject(wire.M("valid", wire.NewBool(err == nil)))
	default:
		t.Fatalf("unknown kind %q", kind)
		return wire.Value{}
	}
}

// mostEvents is how many events stand for a longer log: one of 200 or 256
// delegations is larger than a PublishedAgent may be (limits#constants).
const mostEvents = 100

// admissionTrace is one endpoint, alice's, and the peers it meets.
type admissionTrace struct {
	world   *world
	alice   *endpoint
	setting string
	peers   map[string]*tracePeer
	names   []string          // of the peers, as first met
	permits map[string]string // canonical permit -> symbol
}

// tracePeer is a peer that exists only as keys. Its log has one more event at
// each index of ids.
type tracePeer struct {
	endpoint
	ids     []*kel.Identity // with a log of 2, 3, … events
	profile descriptor.Profile
	prekey  *suite.DecapsulationKey
}

func newAdmissionTrace(t *testing.T, config *wire.Reader) *admissionTrace {
	w := newWorld()
	w.now = start - 1000 // before every trace
	m := &admissionTrace{world: w, peers: map[string]*tracePeer{}, permits: map[string]string{}}
	m.setting, _ = config.Value("contact").AsString()
	m.alice = w.newIdentity(t)
	if err := m.alice.set.Install(official(t, profile.DelegationID)); err != nil {
		t.Fatal(err)
	}
	m.alice.rules = map[string]string{}
	if config.Has("accept_profiles") {
		for i, item := range config.Array("accept_profiles", 0, 8) {
			rule := config.Element("accept_profiles", i, item)
			p := m.profile(t, rule.String("profile"), rule.String("digest"))
			m.alice.rules[p.ID] = p.Digest
			_ = rule.Close() // the error is the config's as well
		}
	}
	m.alice.open()
	return m
}

func official(t *testing.T, id string) *profile.Manifest {
	t.Helper()
	for _, m := range profile.Official() {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("no official profile %s", id)
	return nil
}

// profile maps the symbols of a profile and of its digest.
func (m *admissionTrace) profile(t *testing.T, id, digest string) descriptor.Profile {
	t.Helper()
	p := descriptor.Profile{ID: "example:" + id, Digest: suite.Hex256([]byte(digest))}
	if known := map[string]string{"p1": profile.TextID, "p2": profile.DelegationID}[id]; known != "" {
		p.ID = known
		if digest == "d"+id[1:] {
			p.Digest = official(t, known).Digest
		}
	}
	return p
}

func (m *admissionTrace) peer(t *testing.T, name string) *tracePeer {
	t.Helper()
	if m.peers[name] == nil {
		defer func(now int64) { m.world.now = now }(m.world.now)
		m.world.now = start - 1000
		p := &tracePeer{endpoint: *m.world.newIdentity(t), prekey: suite.NewDecapsulationKey(suite.NewSeed())}
		p.profile = m.profile(t, "p1", "d1")
		p.ids = []*kel.Identity{p.id}
		m.peers[name], m.names = p, append(m.names, name)
	}
	return m.peers[name]
}

// grow makes the peer's log that of the given number of events, and publishes.
func (m *admissionTrace) grow(t *testing.T, p *tracePeer, events int64) {
	t.Helper()
	events = min(events, mostEvents)
	now := m.world.now
	for int64(len(p.ids)) < events-1 { // all before the trace
		m.world.now = start - 1000 + int64(len(p.ids))
		p.delegate(p.ids[len(p.ids)-1].State())
		p.ids = append(p.ids, p.id)
	}
	m.world.now = now
	p.id = p.ids[events-2]
	m.world.agents[p.id.ACEID()] = m.agent(t, p).Value()
}

func (m *admissionTrace) agent(t *testing.T, p *tracePeer) *descriptor.PublishedAgent {
	t.Helper()
	a, err := descriptor.Build(p.id, descriptor.Fields{
		ExpiresAt: m.world.now + wire.MaxDescriptorLifetime, Relays: []string{relay}, Prekey: p.prekey.PublicKey(), Profiles: []descriptor.Profile{p.profile},
	}, m.world.now, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns the permit of a peer for alice that a symbol stands for.
func (m *admissionTrace) issue(t *testing.T, p *tracePeer, symbol string) *admission.Permit {
	t.Helper()
	permit, err := admission.IssuePermit(p.id, m.alice.id.ACEID(), m.world.now, wire.MaxPermitLifetime)
	if err != nil {
		t.Fatal(err)
	}
	m.permits[string(permit.Raw())] = symbol
	return permit
}

func (m *admissionTrace) step(t *testing.T, op string, r *wire.Reader) wire.Value {
	m.world.now = r.Int("now")
	m.republish(t)
	if op == "show" {
		return m.state(t)
	}
	if op == "lose_state" {
		m.alice.path = t.TempDir() + "/ace/store.db"
		m.alice.open()
		m.republish(t)
		return m.state(t, wire.M("result", wire.NewString("lost")))
	}
	name := "peer"
	if strings.HasPrefix(op, "receive_") {
		name = "from"
	}
	p := m.peer(t, r.String(name))
	switch op {
	case "connect":
		return m.state(t, wire.M("result", wire.NewString(m.connect(t, p, r))))
	case "accept", "decline":
		return m.state(t, wire.M("result", wire.NewString(m.decide(t, p, op))))
	case "block", "unblock", "create_invitation":
		return m.state(t, m.block(t, p, op)...)
	case "import_invitation":
		return m.state(t, wire.M("result", wire.NewString(m.importInvitation(t, p, r))))
	case "receive_message":
		return m.state(t, wire.M("result", wire.NewString(m.receiveMessage(t, p, r))))
	case "receive_contact":
		return m.state(t, m.receiveContact(t, p, r)...)
	}
	t.Fatalf("unknown op %q", op)
	return wire.Value{}
}

// republish keeps alice's own documents valid: traces pass over weeks.
func (m *admissionTrace) republish(t *testing.T) {
	t.Helper()
	stands := false
	m.alice.view(func(tx *store.Tx) error {
		own, ok, err := tx.Own(store.OwnDescriptor)
		stands = ok && m.world.now < own.IssuedAt+80_000
		return err
	})
	if !stands {
		m.alice.publish(m.setting)
	}
}

// state adds what every step ends with.
func (m *admissionTrace) state(t *testing.T, members ...wire.Member) wire.Value {
	t.Helper()
	table, held, requests := []wire.Member{}, []wire.Member{}, []wire.Value{}
	m.alice.view(func(tx *store.Tx) error {
		for _, name := range m.names {
			row, listed, err := tx.Contact(m.peers[name].id.ACEID(), m.world.now)
			if err != nil {
				return err
			}
			if listed {
				table = append(table, wire.M(name, m.row(row)))
			}
			permit, ok, err := tx.Permit(m.peers[name].id.ACEID(), store.PermitHeld)
			if err != nil {
				return err
			}
			if ok {
				held = append(held, wire.M(name, wire.NewString(m.permits[string(permit.Raw)])))
			}
		}
		waiting, err := tx.Requests(m.world.now - wire.ContactRequestTTLSeconds)
		for _, q := range waiting {
			requests = append(requests, wire.NewString(m.named(q.Peer)))
		}
		return err
	})
	return wire.NewObject(append(members, wire.M("table", wire.NewObject(table...)),
		wire.M("requests", wire.NewArray(requests...)), wire.M("held_permits", wire.NewObject(held...)))...)
}

func (m *admissionTrace) row(c store.Contact) wire.Value {
	members := []wire.Member{wire.M("state", wire.NewString(c.State))}
	if c.State == string(admission.Pending) {
		symbol := map[string]string{profile.TextID: "p1", profile.DelegationID: "p2"}[c.Profile]
		members = append(members, wire.M("profile", wire.NewString(symbol)))
	}
	return wire.NewObject(members...)
}

func (m *admissionTrace) named(id string) string {
	for _, name := range m.names {
		if m.peers[name].id.ACEID() == id {
			return name
		}
	}
	return id
}

func (m *admissionTrace) connect(t *testing.T, p *tracePeer, r *wire.Reader) string {
	q := delivery.ContactRequest{To: p.id.ACEID()}
	symbol := r.String("profile")
	p.profile = m.profile(t, symbol, "d"+symbol[1:])
	q.Profile = p.profile.ID
	if r.String("target_card") == "open" {
		q.Home = relay
	}
	m.grow(t, p, int64(len(p.id.State().Events())))
	if _, err := m.alice.node.Lookup(t.Context(), q.To, m.world.now); err != nil {
		t.Fatal(err)
	}
	_, err := m.alice.node.SendRequest(t.Context(), q, m.world.now)
	if err != nil {
		return string(fault.CodeOf(err))
	}
	return "sent"
}

func (m *admissionTrace) decide(t *testing.T, p *tracePeer, op string) string {
	var err error
	if op == "accept" {
		_, err = m.alice.node.AcceptRequest(t.Context(), p.id.ACEID(), m.world.now)
	} else {
		err = m.alice.node.RejectRequest(t.Context(), p.id.ACEID(), m.world.now)
	}
	switch {
	case err == nil:
		return op + map[string]string{"accept": "ed", "decline": "d"}[op]
	case errors.Is(err, fault.InvalidArgument):
		return "no_request"
	}
	t.Fatal(err)
	return ""
}

func (m *admissionTrace) block(t *testing.T, p *tracePeer, op string) []wire.Member {
	var decision *store.Block
	var result string
	switch op {
	case "block":
		b, err := m.alice.node.Block(t.Context(), p.id.ACEID(), m.world.now)
		if err != nil {
			t.Fatal(err)
		}
		decision, result = &b, "blocked"
	case "unblock":
		b, err := m.alice.node.Unblock(t.Context(), p.id.ACEID(), m.world.now)
		if err != nil {
			t.Fatal(err)
		}
		decision, result = &b, "stranger"
	case "create_invitation":
		i, err := m.alice.node.Invite(t.Context(), p.id.ACEID(), m.agent(t, p).Value(), 3600, m.world.now)
		if err != nil {
			t.Fatal(err)
		}
		decision, result = i.Unblocked, "admitted"
	}
	registers := wire.Value{}
	if decision != nil {
		registers = wire.NewObject(wire.M("peer", wire.NewString(m.named(decision.Peer))),
			wire.M("blocked", wire.NewBool(decision.Blocked)), wire.M("revision", wire.NewInt(decision.Revision)))
	}
	return []wire.Member{wire.M("result", wire.NewString(result)), wire.M("registers", registers)}
}

func (m *admissionTrace) importInvitation(t *testing.T, p *tracePeer, r *wire.Reader) string {
	permit := m.issue(t, p, r.String("permit"))
	if !r.Bool("valid") {
		permit = newPermit(t, p.id, m.world.newIdentity(t).id.ACEID(), m.world.now)
	}
	i, err := admission.DecodeInvitation(admission.NewInvitation(m.agent(t, p), permit).Text())
	if err != nil {
		t.Fatal(err)
	}
	inviter, err := m.alice.node.Import(t.Context(), i, m.world.now)
	switch {
	case err != nil:
		return string(fault.CodeOf(err))
	case inviter != p.id.ACEID():
		t.Fatalf("imported from %s", inviter)
	}
	return "imported"
}

func (m *admissionTrace) receiveMessage(t *testing.T, p *tracePeer, r *wire.Reader) string {
	message, _ := m.alice.set.Type(profile.TextType)
	c := packet.Content{Type: profile.TextType, SchemaDigest: message.Digest, Body: textBody("x"), Prekey: newPrekey()}
	if r.Has("proof") {
		subject := p.id.ACEID()
		if r.String("proof") != "valid" {
			subject = m.world.newIdentity(t).id.ACEID()
		}
		c.Admission = &packet.Admission{
			Proof:  newPermit(t, m.alice.id, subject, m.world.now).Value(),
			Permit: m.issue(t, p, r.String("admission_permit")).Value(), Source: m.agent(t, p).Value(),
		}
	}
	got := m.alice.take(sealPlaintext(m.alice, p.id, c.Value().Canonical(), m.world.now))
	switch {
	case got.Outcome == delivery.Dropped:
		return "drop"
	case got.Outcome != delivery.Delivered:
		t.Fatalf("the message ended as %+v", got)
	case got.Contact != nil:
		return "recovered"
	}
	return "continue"
}

func (m *admissionTrace) receiveContact(t *testing.T, p *tracePeer, r *wire.Reader) []wire.Member {
	kind := r.String("kind")
	p.profile = m.profile(t, r.String("profile"), r.String("digest"))
	m.grow(t, p, r.Int("source_kel_events"))
	var permit *admission.Permit
	if r.Has("permit") {
		permit = m.issue(t, p, r.String("permit"))
	}
	before, held := m.requests(), m.held(p)
	m.world.posted = nil
	body := admission.Body(kind, p.profile.ID, "", m.agent(t, p), permit)
	got := m.alice.take(sealTo(m.alice, p.id, profile.ContactType, body, m.world.now))
	if got.Outcome != delivery.Delivered && got.Outcome != delivery.Dropped {
		t.Fatalf("the contact ended as %+v", got)
	}
	reply := m.reply(t, p)
	members := []wire.Member{wire.M("reply", text(reply))}
	result := "ignored"
	switch {
	case got.Outcome == delivery.Dropped:
		result = "drop"
	case got.Request != nil:
		result = "held"
		members = append(members, wire.M("evicted", text(m.evicted(before, p))))
	case reply == admission.Accepted:
		result = "accepted"
	case got.Contact != nil && got.Contact.State == string(admission.Admitted):
		result = "admitted"
	case got.Contact != nil:
		result = "removed"
	case !bytes.Equal(held, m.held(p)):
		result = "permit_replaced"
	}
	return append(members, wire.M("result", wire.NewString(result)))
}

func (m *admissionTrace) held(p *tracePeer) []byte {
	return m.alice.permit(&p.endpoint, store.PermitHeld).Raw
}

func (m *admissionTrace) requests() (from []string) {
	m.alice.view(func(tx *store.Tx) error {
		waiting, err := tx.Requests(m.world.now - wire.ContactRequestTTLSeconds)
		for _, q := range waiting {
			from = append(from, q.Peer)
		}
		return err
	})
	return from
}

// evicted returns who of those whose request was held has left for another's.
func (m *admissionTrace) evicted(before []string, p *tracePeer) string {
	after := strings.Join(m.requests(), " ")
	for _, id := range before {
		if id != p.id.ACEID() && !strings.Contains(after, id) {
			return m.named(id)
		}
	}
	return ""
}

// reply opens what was posted to a peer and returns its kind, "" for nothing.
func (m *admissionTrace) reply(t *testing.T, p *tracePeer) string {
	t.Helper()
	if len(m.world.posted) == 0 {
		return ""
	}
	sent := m.world.last()
	plaintext, err := sent.Open(p.prekey)
	if err != nil || len(m.world.posted) != 1 || sent.To != p.id.ACEID() {
		t.Fatalf("%d packets posted, the last to %s: %v", len(m.world.posted), sent.To, err)
	}
	content, err := packet.ParseContent(plaintext)
	if err != nil {
		t.Fatal(err)
	}
	contact, err := admission.DecodeContact(content.Body)
	if err != nil {
		t.Fatal(err)
	}
	return contact.Kind
}
