package crash

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// agent is a recipient: its keys, what it has done at the relay, and the model
// of its queue. Its owner goroutine uses all but the permits and the model.
type agent struct {
	*queue
	id       *kel.Identity
	audience string

	signedAt   int64  // of the newest registration or unregistration
	pending    []byte // a registration without an answer
	handle     string // that its card names
	holds      bool   // the relay has bound it to the agent
	card       documents
	describing documents
	spent      []spent
	block      block
	wake       wake
	cursor     string // of the listener

	mu      sync.Mutex
	permits map[string]*admission.Permit // by subject; guarded by mu
}

// spent is an authenticated request that was answered ok.
type spent struct {
	request
	at int64
}

// documents are what an agent has published of one kind.
type documents struct {
	paths    []string // of the lookups
	issuedAt int64    // of the newest one signed, -1 before
	held     document // what the relay serves
	asked    document // what it may serve instead, having given no answer
}

// document is one that was signed, or none.
type document struct {
	raw     []byte
	expires int64
}

// block is what an agent has asked for one peer.
type block struct {
	peer     string
	revision int64 // of the newest one accepted, 0 for none
	blocked  bool
	asked    int64 // revision of the newest one, whatever came of it
}

// born is how long before its making an identity says that it was made.
const born = 3600

func newAgent(name, handle, audience string, now int64, f *findings) (*agent, error) {
	key := func() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }
	root, next, signing := key(), key(), key()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now-born)
	if err != nil {
		return nil, err
	}
	state, err = state.Delegate(root, signing.PublicKey(), now-born, 0)
	if err != nil {
		return nil, err
	}
	return &agent{
		queue: newQueue(name, f), id: kel.NewIdentity(state, signing), audience: audience,
		handle:     handle,
		card:       documents{paths: []string{"/v1/card/" + state.ACEID(), "/v1/handles/" + handle}, issuedAt: -1},
		describing: documents{paths: []string{"/v1/descriptor/" + state.ACEID()}, issuedAt: -1},
		block:      block{peer: strangerID()},
		cursor:     relayapi.Dash,
		permits:    map[string]*admission.Permit{},
	}, nil
}

func strangerID() string { return wire.ACEID(suite.Hex256(suite.RandomBytes(32))) }

// after returns a time for a request that has to be newer than those before.
func (a *agent) after(now int64) int64 {
	a.signedAt = max(now, a.signedAt+1)
	return a.signedAt
}

// permit returns one for a sender, valid for days.
func (a *agent) permit(subject string, now int64) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.permits[subject]
	if p == nil || p.ExpiresAt < now+86400 {
		var err error
		if p, err = admission.IssuePermit(a.id, subject, now, wire.MaxPermitLifetime); err != nil {
			return nil, err
		}
		a.permits[subject] = p
	}
	return p.Raw(), nil
}

// signed is an authenticated request.
func (a *agent) signed(method, path, action string, payload, body []byte, now int64) (request, error) {
	h, err := relayapi.SignHeaders(a.id, action, a.audience, suite.NewNonce(), payload, now)
	if err != nil {
		return request{}, err
	}
	r := request{method: method, path: path, body: body, header: http.Header{}}
	h.Apply(r.header)
	return r, nil
}

func (a *agent) inbox(since string, limit, now int64) (request, error) {
	path := "/v1/inbox?since=" + since + "&limit=" + strconv.FormatInt(limit, 10)
	return a.signed("GET", path, kel.ActionInbox, relayapi.InboxPayload(since, limit), nil, now)
}

func (a *agent) ack(through string, now int64) (request, error) {
	return a.signed("POST", "/v1/inbox/ack?through="+through, kel.ActionInboxAck, relayapi.AckPayload(through), nil, now)
}

func (a *agent) listen(since string, now int64) (request, error) {
	return a.signed("GET", "/v1/listen?since="+since, kel.ActionListen, relayapi.ListenPayload(since), nil, now)
}

func (a *agent) blocking(blocked bool, revision, now int64) (request, error) {
	b := relayapi.Block{Peer: a.block.peer, Blocked: blocked, Revision: revision}
	return a.signed("POST", "/v1/blocks", kel.ActionBlock, relayapi.BlockPayload(b.Peer, b.Blocked, b.Revision), b.Body(), now)
}

func (a *agent) unregister(now int64) (request, error) {
	return a.signed("POST", "/v1/unregister", kel.ActionUnregister, relayapi.UnregisterPayload(), nil, a.after(now))
}

func (a *agent) registration(now int64) ([]byte, error) {
	r, err := relayapi.BuildRegistration(a.id, a.audience, a.after(now))
	if err != nil {
		return nil, err
	}
	return r.Raw, nil
}

// describe signs a descriptor that is valid for most of a week.
func (a *agent) describe(now int64) (document, error) {
	expires := now + wire.MaxDescriptorLifetime - 3600
	d, err := descriptor.Build(a.id, descriptor.Fields{
		ExpiresAt: expires,
		Relays:    []string{a.audience},
		Prekey:    prekey(),
		Profiles:  []descriptor.Profile{{ID: "x:profile", Digest: suite.Hex256(nil)}},
	}, now, a.describing.issuedAt, descriptor.Options{URLs: wire.Development})
	if err != nil {
		return document{}, err
	}
	a.describing.issuedAt = d.IssuedAt
	return document{d.Raw(), expires}, nil
}

var prekey = sync.OnceValue(func() []byte { return suite.NewDecapsulationKey(suite.NewSeed()).PublicKey() })

// introduce signs a card record that is open to strangers and claims the handle.
func (a *agent) introduce(now int64) (document, error) { return a.introduceAs(a.handle, now) }

func (a *agent) introduceAs(handle string, now int64) (document, error) {
	c, err := descriptor.BuildCard(a.id, descriptor.CardRecord{Home: a.audience, Handle: handle, Contact: descriptor.ContactOpen},
		now, a.card.issuedAt, descriptor.Options{URLs: wire.Development})
	if err != nil {
		return document{}, err
	}
	a.card.issuedAt = c.IssuedAt
	return document{c.Raw(), wire.MaxInt}, nil
}

// envelopes makes packets that decode and that nobody could open. What is
// large in them is the same each time.
type envelopes struct {
	ciphertext string
	payloads   []string
	signature  wire.Value
}

func newEnvelopes() *envelopes {
	e := &envelopes{
		ciphertext: wire.EncodeBase64(suite.RandomBytes(wire.KEMCiphertextBytes)),
		signature:  wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object(),
	}
	// Entries in one page of the database, in some, and in many.
	for _, size := range []int{64, 64, 64, 1000, 1000, 5000, 5000, 20_000, 150_000} {
		e.payloads = append(e.payloads, wire.EncodeBase64(suite.RandomBytes(size)))
	}
	return e
}

func (e *envelopes) packet(random *rand.Rand, from, to string, now int64) *packet {
	messageID := suite.NewMessageID()
	return &packet{messageID: messageID, raw: wire.NewObject(
		wire.M("ace", wire.NewString(wire.Version)),
		wire.M("messageId", wire.NewString(messageID)),
		wire.M("from", wire.NewString(from)),
		wire.M("to", wire.NewString(to)),
		wire.M("timestamp", wire.NewInt(now)),
		wire.M("encryption", wire.NewObject(
			wire.M("prekey", wire.NewString(suite.Hex256(nil))),
			wire.M("kemCiphertext", wire.NewString(e.ciphertext)),
			wire.M("payload", wire.NewString(e.payloads[random.IntN(len(e.payloads))])),
		)),
		wire.M("signature", e.signature),
	).Canonical()}
}
