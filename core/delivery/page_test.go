package delivery_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// receivePage has an endpoint take a page, and returns what it was told.
func (e *endpoint) receivePage(entries []delivery.Entry) (page delivery.Page, told []delivery.Result) {
	e.t.Helper()
	page, err := e.node.ReceivePage(e.t.Context(), entries, e.world.clock, func(r delivery.Result) { told = append(told, r) })
	if err != nil {
		e.t.Fatal(err)
	}
	return page, told
}

// takeQueue returns what waits for an endpoint, and empties its queue.
func (w *world) takeQueue(of *endpoint) []delivery.Entry {
	entries := w.queues[of.id.ACEID()]
	w.queues[of.id.ACEID()] = nil
	return entries
}

func outcomes(told []delivery.Result) (outcomes []string) {
	for _, r := range told {
		outcome := string(r.Outcome)
		if r.Message != nil {
			outcome += " message"
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}

func wantOutcomes(t *testing.T, told []delivery.Result, want ...string) {
	t.Helper()
	if got := outcomes(told); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// failingPost is a network that fails the posts whose numbers are given.
type failingPost struct {
	endpointNet
	posts int
	fails []int
}

func (n *failingPost) Post(ctx context.Context, relay string, raw, permit []byte) error {
	n.posts++
	if slices.Contains(n.fails, n.posts) {
		return fault.New(fault.RelayUnavailable, "down")
	}
	return n.endpointNet.Post(ctx, relay, raw, permit)
}

// replaceNet gives an endpoint another network.
func (e *endpoint) replaceNet(net delivery.Net) {
	e.t.Helper()
	var err error
	e.node, err = delivery.New(e.t.Context(), delivery.Config{
		Identity: e.id, Store: e.store, Net: net, Profiles: e.set, Home: relay, Capacity: e.room,
	}, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
}

// A receipt that fails for now holds up the page (06#receive-pipeline step 11,
// Acknowledgement): what was taken in with its message is told, is not
// acknowledged, and comes again as a duplicate. A message given up after
// MAX_FETCH_ATTEMPTS holds up nothing.
func TestReceiptFailsWithinAPage(t *testing.T) {
	w, alice, bob := friends(t)
	for i := range 5 {
		bob.send(alice, fmt.Sprint(i))
	}
	entries := w.takeQueue(alice)
	net := &failingPost{endpointNet: endpointNet{w, alice.id.ACEID()}, fails: []int{3}}
	alice.replaceNet(net)

	page, told := alice.receivePage(entries)
	wantOutcomes(t, told, "delivered message", "delivered message", "retry message", "delivered message", "delivered message")
	if page.Through != entries[1].StreamID || page.Last != delivery.Retry || net.posts != 3 {
		t.Errorf("page %+v after %d posts", page, net.posts)
	}
	for attempt := 2; attempt < wire.MaxFetchAttempts; attempt++ {
		net.fails = []int{net.posts + 1}
		page, told = alice.receivePage(entries[2:])
		wantOutcomes(t, told, "retry")
		if page.Through != "" {
			t.Errorf("attempt %d: page %+v", attempt, page)
		}
	}
	net.fails = []int{net.posts + 1}
	page, told = alice.receivePage(entries[2:])
	wantOutcomes(t, told, "quarantined", "duplicate", "duplicate")
	if page.Through != entries[4].StreamID {
		t.Errorf("page %+v", page)
	}
	if got := len(w.queues[bob.id.ACEID()]); got != 4 {
		t.Errorf("%d receipts arrived", got)
	}
	if texts := alice.inbox(); len(texts) != 5 {
		t.Errorf("inbox %q", texts)
	}
}

// The chunk that was processed while the receipt of an earlier one failed comes
// again too, and what is new of it is told once.
func TestReceiptFailsBesideTheNextChunk(t *testing.T) {
	w, alice, bob := friends(t)
	const count = 70 // more than one chunk
	for i := range count {
		bob.send(alice, fmt.Sprint(i))
	}
	entries := w.takeQueue(alice)
	alice.replaceNet(&failingPost{endpointNet: endpointNet{w, alice.id.ACEID()}, fails: []int{3}})
	page, told := alice.receivePage(entries)
	if page.Through != entries[1].StreamID || page.Last != delivery.Retry || len(told) != count || told[2].Outcome != delivery.Retry {
		t.Errorf("page %+v, %d told", page, len(told))
	}
	page, again := alice.receivePage(entries[2:])
	for i, r := range slices.Concat(told, again) {
		if wantMessage := i < count; (r.Message != nil) != wantMessage || !wantMessage && r.Outcome != delivery.Duplicate {
			t.Errorf("result %d: %s, message %t", i, r.Outcome, r.Message != nil)
		}
	}
	if page.Through != entries[count-1].StreamID || len(again) != count-2 {
		t.Errorf("page %+v, %d told again", page, len(again))
	}
}

// The count of fetches of an entry is gone when it has come to its end.
func TestFetchCountIsForgotten(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	entries := w.takeQueue(alice)
	alice.replaceNet(&failingPost{endpointNet: endpointNet{w, alice.id.ACEID()}, fails: []int{1}})
	for _, want := range []int{1, 0} {
		alice.receivePage(entries)
		alice.view(func(tx *store.Tx) error {
			counts, err := tx.Retries()
			if len(counts) != want {
				t.Errorf("counts %v, want %d", counts, want)
			}
			return err
		})
	}
}

// A packet under a newer key makes its receiver ask the network: those before
// and behind it are taken in all the same, in order (06#receive-pipeline step 3).
func TestPinIsRefreshedWithinAPage(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "0")
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("open")
	for i := range 3 {
		bob.send(alice, fmt.Sprint(i+1))
	}
	asked := w.asked
	page, told := alice.receivePage(w.takeQueue(alice))
	wantOutcomes(t, told, "delivered message", "delivered message", "delivered message", "delivered message")
	if page.Last != delivery.Delivered || w.asked == asked {
		t.Errorf("page %+v, %d lookups", page, w.asked-asked)
	}
	for i, text := range alice.inbox() {
		if want := fmt.Sprintf(`{"message":"%d"}`, i); text != want {
			t.Errorf("message %d is %s", i, text)
		}
	}
}

// One packet whose processing fails for a local reason takes nothing from those
// before it in its page.
func TestFailureWithinAPage(t *testing.T) {
	w, alice, bob := friends(t)
	for i := range 3 {
		bob.send(alice, fmt.Sprint(i))
	}
	entries := w.takeQueue(alice)
	if err := alice.set.Govern(&failingAt{n: 2}); err != nil {
		t.Fatal(err)
	}
	page, told := alice.receivePage(entries)
	wantOutcomes(t, told, "delivered message", "retry")
	if page.Through != entries[0].StreamID || told[1].Code != fault.StorageFailed {
		t.Errorf("page %+v, code %s", page, told[1].Code)
	}
	if texts := alice.inbox(); len(texts) != 1 {
		t.Errorf("inbox %q", texts)
	}
}

// failingAt is a rule of the text profile that cannot read its state for one
// message, the n-th that it meets and again when that is repeated.
type failingAt struct {
	n   int
	met []string
}

func (*failingAt) Profile() string { return profile.TextID }
func (*failingAt) Types() []string { return []string{profile.TextType} }

func (f *failingAt) Check(_ profile.State, e profile.Event, _ wire.Value) error {
	if !slices.Contains(f.met, e.MessageID) {
		f.met = append(f.met, e.MessageID)
	}
	if f.met[min(f.n, len(f.met))-1] == e.MessageID && len(f.met) >= f.n {
		return fault.New(fault.StorageFailed, "no state")
	}
	return nil
}

func (*failingAt) Commit(profile.State, profile.Event, wire.Value) error { return nil }

// twin is the same endpoint on a copy of its store.
func (e *endpoint) twin() *endpoint {
	e.t.Helper()
	e.open() // closing moves the log into the file
	twin := *e
	twin.path = filepath.Join(e.t.TempDir(), "ace", "store.db")
	content, err := os.ReadFile(e.path)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(twin.path), 0o700); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(twin.path, content, 0o600); err != nil {
		e.t.Fatal(err)
	}
	twin.store = nil
	twin.open()
	return &twin
}

// kept is what an endpoint keeps that receiving changes.
func (e *endpoint) kept(peers ...*endpoint) (kept []any) {
	e.t.Helper()
	add := func(v any, err error) {
		if err != nil {
			e.t.Fatal(err)
		}
		kept = append(kept, v)
	}
	e.view(func(tx *store.Tx) error {
		messages, err := tx.Messages(store.MessageFilter{})
		add(messages, err)
		seen, err := tx.SeenEntries()
		add(seen, err)
		audits, err := tx.Audits(store.AuditFilter{})
		add(audits, err)
		requests, err := tx.Requests(0)
		add(requests, err)
		outbox, err := tx.OutboxEntries()
		add(outbox, err)
		unhandled, err := tx.CountUnhandled()
		add(unhandled, err)
		for _, p := range peers {
			row, _, err := tx.Contact(p.id.ACEID(), e.world.now)
			add(row, err)
			held, _, err := tx.HeldPrekey(p.id.ACEID())
			add(held, err)
			pin, _, err := tx.Pin(p.id.ACEID())
			add(pin, err)
		}
		return nil
	})
	for _, p := range peers {
		slots := e.slots(p)
		kept = append(kept, len(slots), slots[store.SlotInUse])
	}
	return kept
}

// A page comes to the same as its entries one by one, whatever is in it.
func TestPageIsItsEntriesInOrder(t *testing.T) {
	w, alice, bob := friends(t)
	carol := w.newEndpoint(t, "open", nil)
	alice.connect(carol)
	carol.pull()
	if _, err := carol.node.AcceptRequest(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	dave := w.newEndpoint(t, "open", nil)
	alice.connect(dave)
	dave.pull()
	if err := dave.node.RejectRequest(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	answers := w.takeQueue(alice)
	w.now++

	mine := alice.send(bob, "answered within the page")
	bob.pull()
	var packets []*packet.Packet
	for i := range 40 {
		packets = append(packets, w.posted[bob.posted(alice, fmt.Sprint(i))])
		if i%7 == 0 {
			w.now++
			packets = append(packets, packets[len(packets)/2])
		}
	}
	stranger := w.newEndpoint(t, "open", nil)
	stranger.connect(alice)
	packets = append(packets, w.last(), sealTo(alice, bob.id, profile.TextType, members("no", "message"), w.now),
		sealTo(alice, stranger.id, profile.TextType, textBody("x"), w.now), packets[3])
	entries := slices.Concat(w.takeQueue(alice), answers)
	packets = append([]*packet.Packet{sealTo(alice, dave.id, profile.TextType, textBody("after all"), w.now)}, packets...)
	for i, p := range packets {
		entries = append(entries, delivery.Entry{StreamID: fmt.Sprintf("9-%d", i), Packet: p.Value()})
	}

	twin := alice.twin()
	_, together := alice.receivePage(entries)
	var apart []delivery.Result
	for _, e := range entries {
		_, told := twin.receivePage([]delivery.Entry{e})
		apart = append(apart, told...)
	}
	if a, b := outcomes(together), outcomes(apart); !slices.Equal(a, b) || len(a) != len(entries) {
		t.Errorf("%d entries\ntogether %q\napart    %q", len(entries), a, b)
	}
	a, b := alice.kept(bob, carol, dave, stranger), twin.kept(bob, carol, dave, stranger)
	for i := range a {
		if !reflect.DeepEqual(a[i], b[i]) {
			t.Errorf("kept %d:\ntogether %+v\napart    %+v", i, a[i], b[i])
		}
	}
	if alice.entry(mine.MessageID).State != store.Delivered {
		t.Error("the receipt in the page was not applied")
	}
}

// The receipt of the first packet that opens under an offered key carries the
// next one, also when others are processed with it (04#peer-prekeys).
func TestOfferedKeyChangesWithinAPage(t *testing.T) {
	w, alice, bob := friends(t)
	for range 2 {
		w.now++
		alice.send(bob, "x")
		bob.pull()
		w.now++
		before := alice.slots(bob)
		for i := range 3 {
			bob.send(alice, fmt.Sprint(i))
		}
		alice.receivePage(w.takeQueue(alice))
		after := alice.slots(bob)
		if !bytes.Equal(after[store.SlotInUse], before[store.SlotOffered]) || bytes.Equal(after[store.SlotOffered], before[store.SlotOffered]) {
			t.Error("the offered key is not in use")
		}
		w.now++
		bob.pull()
		bob.view(func(tx *store.Tx) error {
			held, _, err := tx.HeldPrekey(alice.id.ACEID())
			if !bytes.Equal(held.PublicKey, after[store.SlotOffered]) {
				t.Error("the receipts did not carry the key that is offered now")
			}
			return err
		})
	}
}

// A page renews a permit once (05#delivery-permits), whether or not the
// descriptor of its sender has to be refreshed before the first receipt.
func TestPageRenewsAPermitOnce(t *testing.T) {
	for name, refresh := range map[string]bool{"descriptor at hand": false, "descriptor expired": true} {
		t.Run(name, func(t *testing.T) {
			w, alice, bob := friends(t)
			w.now = bob.permit(alice, store.PermitHeld).ExpiresAt - wire.PermitRenewalSeconds + 1
			alice.publish("open")
			bob.publish("")
			for i := range 3 {
				bob.send(alice, fmt.Sprint(i))
			}
			if !refresh {
				if _, err := alice.node.Lookup(t.Context(), bob.id.ACEID(), w.now); err != nil {
					t.Fatal(err)
				}
			}
			asked := w.asked
			alice.receivePage(w.takeQueue(alice))
			if refreshed := w.asked > asked; refreshed != refresh {
				t.Errorf("refreshed: %t", refreshed)
			}
			renewals := 0
			for _, r := range bob.pull() {
				if r.Receipt.Body.Permit.Kind() != wire.Null {
					renewals++
				}
			}
			if renewals != 1 || alice.permit(bob, store.PermitIssued).IssuedAt != w.now {
				t.Errorf("%d renewals, the last recorded at %d, now %d", renewals, alice.permit(bob, store.PermitIssued).IssuedAt, w.now)
			}
		})
	}
}

// posted sends a text and returns which packet of the world that was.
func (e *endpoint) posted(to *endpoint, text string) int {
	e.t.Helper()
	e.send(to, text)
	return len(e.world.posted) - 1
}

// A receipt goes with the newest permit of the peer that is held when it leaves,
// also one that came behind the message in its chunk: the one held before is void
// once the peer has a new signing key (05#delivery-permits, 06#receipts).
func TestReceiptWaitsForThePermitBehind(t *testing.T) {
	w, alice, bob := friends(t)
	w.now += wire.PinRefreshIntervalSeconds + 1
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("open")
	for i := range 3 {
		bob.send(alice, fmt.Sprint(i))
	}
	if _, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID()}, w.now); err != nil {
		t.Fatal(err)
	}
	entries := w.takeQueue(alice)
	before := len(w.posted)
	_, told := alice.receivePage(entries)
	wantOutcomes(t, told, "delivered message", "delivered message", "delivered message", "delivered")
	var with []bool
	for _, permit := range w.permit[before:] {
		with = append(with, permit != nil)
	}
	// The first one was processed alone, for the refresh of the pin.
	if want := []bool{false, true, true, true}; !slices.Equal(with, want) {
		t.Errorf("with a permit: %v", with)
	}
}
