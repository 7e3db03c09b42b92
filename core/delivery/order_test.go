package delivery_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
)

// watched is a network that is looked at whenever something leaves the endpoint.
type watched struct {
	endpointNet
	post, ack func()
}

func (n *watched) Post(ctx context.Context, relay string, raw, permit []byte) error {
	n.post()
	return n.endpointNet.Post(ctx, relay, raw, permit)
}

func (n *watched) Ack(ctx context.Context, through string, now int64) error {
	n.ack()
	return n.endpointNet.Ack(ctx, through, now)
}

// slots returns the public keys offered to a peer by slot.
func (e *endpoint) slots(peer *endpoint) map[string][]byte {
	e.t.Helper()
	slots := map[string][]byte{}
	e.view(func(tx *store.Tx) error {
		keys, err := tx.Prekeys(peer.id.ACEID())
		for _, k := range keys {
			slots[k.Slot] = k.PublicKey
		}
		return err
	})
	return slots
}

// inFiles reports whether a file of the store holds b.
func (e *endpoint) inFiles(b []byte) bool {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(e.path), "*"))
	if err != nil || len(files) == 0 {
		e.t.Fatalf("files %v: %v", files, err)
	}
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			e.t.Fatal(err)
		}
		if bytes.Contains(content, b) {
			return true
		}
	}
	return false
}

// TestOrderOfEffects stops, as a crash would, at each thing that leaves the
// receiver, and looks at what is durable then: the message before its receipt,
// the offered prekey before the packet that carries it, and before the
// acknowledgement all of it, with the deleted seed gone from the files
// (04#peer-prekeys, 06#receive-pipeline).
func TestOrderOfEffects(t *testing.T) {
	w, alice, bob := friends(t)
	for range 2 {
		bob.send(alice, "x")
		alice.pull()
		bob.pull()
		w.now++ // a later packet, so that bob holds the key it carries
	}
	used := alice.slots(bob)[store.SlotInUse]
	bob.send(alice, "y")
	if used == nil || !alice.inFiles(used) {
		t.Fatal("no prekey in use: the test does not look")
	}
	var posts, acks int
	net := &watched{endpointNet: endpointNet{w, alice.id.ACEID()}}
	net.post = func() {
		posts++
		if got := alice.inbox(); len(got) != 3 {
			t.Errorf("at the receipt the inbox has %v", got)
		}
		if alice.slots(bob)[store.SlotOffered] == nil {
			t.Error("the offered prekey is not stored before the packet is posted")
		}
	}
	net.ack = func() {
		acks++
		if posts != 1 {
			t.Error("acknowledged before the receipt")
		}
		if alice.inFiles(used) {
			t.Error("the deleted prekey is in a file at the acknowledgement")
		}
	}
	node, err := delivery.New(t.Context(), delivery.Config{Identity: alice.id, Store: alice.store, Net: net, Profiles: alice.set, Home: relay}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Pull(t.Context(), delivery.Pulling{Since: "-", Clock: w.clock, On: func(delivery.Result) {}}); err != nil {
		t.Fatal(err)
	}
	if posts != 1 || acks != 1 || bytes.Equal(alice.slots(bob)[store.SlotInUse], used) {
		t.Errorf("%d packets posted, %d acknowledgements, or the prekey is still in use", posts, acks)
	}
}
