package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const receiveRelay = "https://relay.example"

// receiveNet hands the packets of an endpoint to whoever reads inbox, and takes
// no time for it.
type receiveNet struct {
	agents map[string]wire.Value
	inbox  *[][]byte
}

func (n *receiveNet) Lookup(_ context.Context, _, aceID string) (wire.Value, error) {
	return n.agents[aceID], nil
}

func (n *receiveNet) Post(_ context.Context, _ string, raw, _ []byte) error {
	*n.inbox = append(*n.inbox, raw)
	return nil
}

func (n *receiveNet) Inbox(context.Context, string, int64) ([]delivery.Entry, error) { return nil, nil }
func (n *receiveNet) Ack(context.Context, string, int64) error                       { return nil }

// receiveEnd is one endpoint of the benchmark.
type receiveEnd struct {
	id   *kel.Identity
	node *delivery.Node
	text *profile.Manifest
	now  int64
}

func newReceiveEnd(b *testing.B, path string, net *receiveNet, now int64) *receiveEnd {
	b.Helper()
	e := &receiveEnd{text: profile.OfficialByID(profile.TextID), now: now}
	var err error
	e.id, err = kel.Ephemeral(now)
	must(b, err)
	s, err := store.Open(b.Context(), path, suite.NewSeed())
	must(b, err)
	b.Cleanup(func() { s.Close() })
	set := profile.NewSet()
	must(b, set.Install(e.text))
	e.node, err = delivery.New(b.Context(), delivery.Config{
		Identity: e.id, Store: s, Net: net, Profiles: set, Home: receiveRelay, Capacity: 1 << 40,
		Accept: map[string]string{e.text.ID: e.text.Digest},
	}, now)
	must(b, err)
	must(b, s.Update(b.Context(), func(tx *store.Tx) error { return e.publish(tx, net) }))
	return e
}

func (e *receiveEnd) publish(tx *store.Tx, net *receiveNet) error {
	key, err := delivery.RotatePublished(tx, e.now)
	if err != nil {
		return err
	}
	agent, err := descriptor.Build(e.id, descriptor.Fields{
		ExpiresAt: e.now + 86400, Relays: []string{receiveRelay}, Prekey: key,
		Profiles: []descriptor.Profile{{ID: e.text.ID, Digest: e.text.Digest}},
	}, e.now, -1, descriptor.Options{})
	if err != nil {
		return err
	}
	net.agents[e.id.ACEID()] = agent.Value()
	if err := tx.SetOwn(store.OwnDescriptor, store.Document{IssuedAt: agent.IssuedAt, Raw: agent.Raw(), Relay: receiveRelay}); err != nil {
		return err
	}
	card, err := descriptor.BuildCard(e.id, descriptor.CardRecord{Home: receiveRelay, Contact: descriptor.ContactOpen}, e.now, -1, descriptor.Options{})
	if err != nil {
		return err
	}
	return tx.SetOwn(store.OwnCard, store.Document{IssuedAt: card.IssuedAt, Raw: card.Raw(), Relay: receiveRelay})
}

// receiveKit is a sender with a permit, and a receiver with its store on disk.
type receiveKit struct {
	*packetKit
	sender, receiver *receiveEnd
	toSender         [][]byte
	toReceiver       [][]byte
}

func newReceiveKit(b *testing.B) *receiveKit {
	b.Helper()
	k := &receiveKit{packetKit: newPacketKit(b)}
	now, agents := int64(packetNow), map[string]wire.Value{}
	k.sender = newReceiveEnd(b, "", &receiveNet{agents, &k.toReceiver}, now)
	k.receiver = newReceiveEnd(b, filepath.Join(b.TempDir(), "ace", "store.db"), &receiveNet{agents, &k.toSender}, now)
	to := k.receiver.id.ACEID()
	_, err := k.sender.node.Lookup(b.Context(), to, now)
	must(b, err)
	_, err = k.sender.node.SendRequest(b.Context(), delivery.ContactRequest{To: to, Profile: profile.TextID, Home: receiveRelay}, now)
	must(b, err)
	k.receive(b, fetch(b, &k.toReceiver), k.receiver, 100)
	k.receive(b, fetch(b, &k.toSender), k.sender, 100)
	return k
}

// fetch returns what waits for an endpoint.
func fetch(b *testing.B, inbox *[][]byte) (entries []delivery.Entry) {
	for i, raw := range *inbox {
		v, err := wire.Parse(raw, wire.MaxJSONDepth)
		must(b, err)
		entries = append(entries, delivery.Entry{StreamID: fmt.Sprintf("1-%d", i+1), Packet: v})
	}
	*inbox = nil
	return entries
}

// receive has an endpoint take entries, in pages of a size.
func (k *receiveKit) receive(b *testing.B, waiting []delivery.Entry, e *receiveEnd, page int) {
	for chunk := range slices.Chunk(waiting, page) {
		_, err := e.node.ReceivePage(b.Context(), chunk, func() int64 { return e.now }, func(r delivery.Result) {
			if r.Outcome != delivery.Delivered {
				b.Fatalf("%s %s", r.Outcome, r.Code)
			}
		})
		must(b, err)
	}
}

// send seals messages to the receiver, a minute later, so that they use the peer
// prekey that it offered last.
func (k *receiveKit) send(b *testing.B, count int) {
	b.Helper()
	for range count {
		out, err := k.sender.node.Enqueue(b.Context(), delivery.Message{
			To: k.receiver.id.ACEID(), Type: profile.TextType, Body: profile.TextBody("a text of a usual length, which is about one line"),
		}, k.sender.now)
		must(b, err)
		_, err = k.sender.node.Attempt(b.Context(), out.MessageID, k.sender.now)
		must(b, err)
	}
}

// receipts is what a page's receipts cost by themselves: their content, sealed.
func (k *receiveKit) receipts(b *testing.B, count int) {
	for range count {
		body := delivery.ReceiptBody{MessageID: suite.NewMessageID(), Outcome: delivery.OutcomeDelivered}
		content := packet.Content{Type: profile.ReceiptType, SchemaDigest: suite.Hex256(nil), Body: body.Value(), Prekey: k.openWith.PublicKey()}
		plaintext, err := content.Canonical()
		must(b, err)
		key, err := suite.ParseEncapsulationKey(k.openWith.PublicKey())
		must(b, err)
		_, err = packet.Seal(k.receiver.id, k.sender.id.ACEID(), suite.NewMessageID(), k.receiver.now, plaintext, key)
		must(b, err)
	}
}

// processor returns the processor time that f takes in this process.
func processor(b *testing.B, f func()) time.Duration {
	var before, after syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	f()
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	took := func(r syscall.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
	return time.Duration(took(after) - took(before))
}

// newBareCommit returns what commits one row of the size of a message, in a store
// of one table with the pragmas of the endpoint's: the least that a transaction
// costs which has to reach the disk.
func newBareCommit(b *testing.B) func() {
	sqlconn.SyncDataOnly()
	fail := func(err error) error { return err }
	c, err := sqlconn.Open(sqlconn.FileURI(filepath.Join(b.TempDir(), "bare.db")), fail, "journal_mode(WAL)", "synchronous(FULL)")
	must(b, err)
	b.Cleanup(c.Close)
	must(b, c.GatherCommits())
	must(b, c.Script("CREATE TABLE message (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)"))
	insert, err := c.Prepare("INSERT INTO message (body) VALUES (?)")
	must(b, err)
	row := []any{make([]byte, 300)}
	return func() {
		must(b, c.Command("BEGIN IMMEDIATE"))
		must(b, insert.Bind(row))
		must(b, insert.Run())
		must(b, c.Commit())
	}
}

// BenchmarkReceive reports the processor time of a received message ÷ that of
// one verification with a cached key and one decapsulation with an expanded key:
// "ratio" without what sealing its receipt costs by itself, "with-receipts" with
// it. A page of 100 must be at most 2.0, one packet at a time at most 4.0. What a
// receipt costs is measured as it comes: of a page on the other core, beside a
// verification and a decapsulation, and alone behind a commit. Beside
// them, in the same rounds, are what committing one row costs, "commit", and what
// a verification, a decapsulation and such a commit cost in turns, "floor": after
// each wait for the disk the processor has to be warmed again.
func BenchmarkReceive(b *testing.B) {
	for _, page := range []int{100, 1} {
		b.Run(fmt.Sprint("page of ", page), func(b *testing.B) {
			k, commit := newReceiveKit(b), newBareCommit(b)
			const count = 100
			unit := func() {
				if !k.verify.Verify(k.message, k.sig, kel.ActionPacket) {
					b.Fatal("signature does not verify")
				}
				_, err := k.openWith.Decapsulate(k.packet.KEMCiphertext)
				must(b, err)
			}
			var apart, whole, commits, floor []float64
			for b.Loop() {
				b.StopTimer()
				k.sender.now++
				k.receiver.now++
				k.send(b, count)
				units := float64(processor(b, times(count, unit)))
				committing := processor(b, times(count, commit))
				inTurns := processor(b, times(count, func() { unit(); commit() }))
				var receipts time.Duration
				if page == 1 { // each of them is sealed after a wait for the disk
					receipts = processor(b, times(count, func() { commit(); k.receipts(b, 1) })) - committing
				} else { // they are sealed on the other core, while the next packets are opened
					receipts = processor(b, func() { beside(times(count, unit), func() { k.receipts(b, count) }) }) - time.Duration(units)
				}
				entries := fetch(b, &k.toReceiver)
				b.StartTimer()
				took := processor(b, func() { k.receive(b, entries, k.receiver, page) })
				b.StopTimer()
				k.receive(b, fetch(b, &k.toSender), k.sender, 100)
				apart = append(apart, float64(took-receipts)/units)
				whole = append(whole, float64(took)/units)
				commits = append(commits, float64(committing)/units)
				floor = append(floor, float64(inTurns)/units)
				b.StartTimer()
			}
			b.ReportMetric(median(apart), "ratio")
			b.ReportMetric(median(whole), "with-receipts")
			b.ReportMetric(median(commits), "commit")
			b.ReportMetric(median(floor), "floor")
		})
	}
}

// beside runs both at a time, and returns when both have ended.
func beside(f, g func()) {
	var wg sync.WaitGroup
	wg.Go(g)
	f()
	wg.Wait()
}

func times(n int, f func()) func() {
	return func() {
		for range n {
			f()
		}
	}
}
