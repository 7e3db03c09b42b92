package prekey_test

import (
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	t0     = 1760140800
	window = wire.OfflineWindowSeconds
	peer   = "ace:sha256:1111111111111111111111111111111111111111111111111111111111111111"
	other  = "ace:sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

func ids(keys []prekey.Key) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.ID)
	}
	return out
}

func wantIDs(t *testing.T, what string, got []prekey.Key, want ...prekey.Key) {
	t.Helper()
	if !slices.Equal(ids(got), ids(want)) {
		t.Errorf("%s: %v, want %v", what, ids(got), ids(want))
	}
}

func TestKeyIsThatOfItsSeed(t *testing.T) {
	seed := suite.NewSeed()
	k := prekey.NewKey(seed)
	if len(k.PublicKey) != wire.PrekeyBytes || k.ID != suite.Hex256(k.PublicKey) {
		t.Fatalf("%d bytes, ID %s", len(k.PublicKey), k.ID)
	}
	if again := prekey.NewKey(seed); again.ID != k.ID {
		t.Error("the same seed gives two keys")
	}
	if a, b := prekey.Generate(), prekey.Generate(); a.ID == b.ID {
		t.Error("two generated keys are equal")
	}
}

func TestPublished(t *testing.T) {
	first, second, third := prekey.Generate(), prekey.Generate(), prekey.Generate()
	p, deleted := prekey.Published{}.Rotate(first, t0)
	wantIDs(t, "first rotation deletes", deleted)
	if len(p.Superseded) != 0 || p.Current.ID != first.ID {
		t.Fatalf("first rotation superseded %d", len(p.Superseded))
	}

	before := p
	p, _ = p.Rotate(second, t0+10)
	if before.Current.ID != first.ID || len(before.Superseded) != 0 {
		t.Fatal("Rotate changed its receiver")
	}

	// The retention of the first ends; it is deleted by the next transition,
	// but must not open before that either.
	end := int64(t0 + 10 + window)
	if _, ok := p.Find(first.ID, end-1); !ok {
		t.Error("a superseded key does not open within its retention")
	}
	if _, ok := p.Find(first.ID, end); ok {
		t.Error("a key whose retention has ended opens")
	}
	pruned, deleted := p.Prune(end)
	wantIDs(t, "Prune deletes", deleted, first)
	if len(pruned.Superseded) != 0 {
		t.Error("Prune kept the key")
	}
	rotated, deleted := p.Rotate(third, end)
	wantIDs(t, "Rotate deletes", deleted, first)
	if len(rotated.Superseded) != 1 || rotated.Superseded[0].ID != second.ID || rotated.Superseded[0].At != end {
		t.Errorf("superseded: %+v", rotated.Superseded)
	}
}

func TestPublishedKeepsTheNewest(t *testing.T) {
	var keys []prekey.Key
	p := prekey.Published{}
	for i := range int64(wire.MaxRetainedPrekeys + 1) {
		keys = append(keys, prekey.Generate())
		p, _ = p.Rotate(keys[i], t0+i)
	}
	// A clock set back: the key superseded then counts as the oldest.
	back := prekey.Generate()
	p, deleted := p.Rotate(back, t0-100)
	wantIDs(t, "at the bound", deleted, keys[wire.MaxRetainedPrekeys])
	if len(p.Superseded) != wire.MaxRetainedPrekeys {
		t.Fatalf("%d superseded", len(p.Superseded))
	}
	_, deleted = p.Rotate(prekey.Generate(), t0+100)
	wantIDs(t, "the oldest", deleted, keys[0])
}

func TestIssuer(t *testing.T) {
	start := prekey.Issuer{Peer: peer}
	a, first, deleted := start.Offer(t0, t0+5)
	wantIDs(t, "Offer deletes", deleted)
	if start.Offered != nil {
		t.Fatal("Offer changed its receiver")
	}
	if a.Offered.Carried != t0+5 {
		t.Errorf("carried at %d", a.Offered.Carried)
	}
	if same, again, _ := a.Offer(t0+1, t0+1); again.ID != first.ID || same != a {
		t.Error("an earlier packet changed the offer")
	}
	if _, ok := a.Find(first.ID, other, t0); ok {
		t.Error("the key opens a packet of another peer")
	}
	if next, _ := a.Opened(suite.Hex256(nil), t0); next != a {
		t.Error("an unknown key changed something")
	}

	b, deleted := a.Opened(first.ID, t0+10)
	wantIDs(t, "first use deletes", deleted)
	if b.Offered != nil || b.InUse == nil || b.InUse.ID != first.ID {
		t.Fatalf("after use: %+v", b)
	}
	if next, _ := b.Opened(first.ID, t0+11); next != b {
		t.Error("the in-use key changed something")
	}
	c, second, _ := b.Offer(t0+20, t0+20)
	if second.ID == first.ID {
		t.Fatal("a used key is offered again")
	}
	d, deleted := c.Opened(second.ID, t0+30)
	wantIDs(t, "second use deletes", deleted, first)
	if d.InUse.ID != second.ID || d.InUse.Carried != t0+20 {
		t.Errorf("in use: %+v", d.InUse)
	}
}

// TestIssuerExpiry has an offered and an in-use key that end a second apart.
func TestIssuerExpiry(t *testing.T) {
	i, first, _ := prekey.Issuer{Peer: peer}.Offer(t0, t0)
	i, _ = i.Opened(first.ID, t0)
	i, second, _ := i.Offer(t0+1, t0+1)
	for _, step := range []struct {
		now           int64
		first, second bool
	}{
		{t0 + window - 1, true, true},
		{t0 + window, false, true},
		{t0 + window + 1, false, false},
	} {
		if _, ok := i.Find(first.ID, peer, step.now); ok != step.first {
			t.Errorf("at %d: in-use key found %v", step.now, ok)
		}
		if _, ok := i.Find(second.ID, peer, step.now); ok != step.second {
			t.Errorf("at %d: offered key found %v", step.now, ok)
		}
	}
	_, deleted := i.Prune(t0 + window + 1)
	wantIDs(t, "Prune deletes", deleted, second, first)
	next, third, deleted := i.Offer(t0+window+1, t0+window+1)
	wantIDs(t, "Offer deletes", deleted, second, first)
	if third.ID == second.ID || next.InUse != nil {
		t.Error("an ended key lives on")
	}
	// An ended key that is still there is no reason to rotate.
	if next, _ := i.Opened(second.ID, t0+window+1); next.InUse != nil {
		t.Error("an ended key came into use")
	}
}

func TestHeld(t *testing.T) {
	k1, k2 := prekey.Generate().PublicKey, prekey.Generate().PublicKey
	var none prekey.Held
	for _, c := range []prekey.Carried{
		{Timestamp: t0, Pin: "a"},
		{PublicKey: k1, Timestamp: t0},
		{PublicKey: k1, Timestamp: t0, Pin: "a", Contact: true},
	} {
		if h, ok := none.Record(c); ok || !h.None() {
			t.Errorf("%+v was recorded", c)
		}
	}
	h, ok := none.Record(prekey.Carried{PublicKey: k1, Timestamp: 0, Pin: "a"})
	if !ok || h.ID != suite.Hex256(k1) {
		t.Fatal("the first key was not recorded")
	}
	h, ok = h.Record(prekey.Carried{PublicKey: k2, Timestamp: t0, Pin: "a"})
	if !ok || h.ID != suite.Hex256(k2) {
		t.Fatal("a newer key was not recorded")
	}
	if _, ok := h.Record(prekey.Carried{PublicKey: k1, Timestamp: t0, Pin: "b"}); ok {
		t.Error("a key of the same time was recorded")
	}
	if !h.Usable(t0+window-1, "a") || h.Usable(t0+window, "a") || h.Usable(t0, "b") || none.Usable(t0, "") {
		t.Error("wrong about what is usable")
	}
	if _, dropped := h.Drop(suite.Hex256(k1)); dropped {
		t.Error("another key was dropped")
	}
	if left, dropped := h.Drop(h.ID); !dropped || !left.None() {
		t.Error("the key was not dropped")
	}
}
