package delivery_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// note is a manifest of a third party, with one message type.
func note(t *testing.T, schema string) *profile.Manifest {
	t.Helper()
	m, err := profile.ParseManifest([]byte(`{"id":"example:note:1","messages":[{"type":"example:note:1","schema":` + schema + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	closedSchema = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`
	openSchema   = `{"type":"object","properties":{},"required":[],"additionalProperties":true}`
)

// list publishes a descriptor of e that lists the given profile alone.
func (e *endpoint) list(m *profile.Manifest) {
	e.t.Helper()
	e.publish("")
	a, err := descriptor.Build(e.id, descriptor.Fields{
		ExpiresAt: e.world.now + 600, Relays: []string{relay}, Prekey: e.publishedKey().PublicKey(),
		Profiles: []descriptor.Profile{{ID: m.ID, Digest: m.Digest}},
	}, e.world.now, -1, descriptor.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	e.world.agents[e.id.ACEID()] = a.Value()
}

// TestSharedProfiles: two endpoints share a profile when ID and digest are equal;
// a request that names another is dropped (08#installation-and-announcement).
func TestSharedProfiles(t *testing.T) {
	for _, c := range []struct {
		name       string
		mine, that string
		outcome    delivery.Outcome
		code       fault.Code
	}{
		{"equal", closedSchema, closedSchema, delivery.Delivered, ""},
		{"another digest", closedSchema, openSchema, delivery.Dropped, fault.InvalidBody},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
			if err := alice.set.Install(note(t, c.mine)); err != nil {
				t.Fatal(err)
			}
			bob.list(note(t, c.that))
			got := alice.take(bob.request(alice, "example:note:1", 60))
			if got.Outcome != c.outcome || got.Code != c.code {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestNothingThatArrivesInstalls: neither a descriptor that lists a profile, nor a
// message of its type (08#installation-and-announcement).
func TestNothingThatArrivesInstalls(t *testing.T) {
	w, alice, bob := friends(t)
	installed := len(alice.set.Manifests())
	if err := bob.set.Install(note(t, openSchema)); err != nil {
		t.Fatal(err)
	}
	bob.list(note(t, openSchema))
	if _, err := alice.node.Lookup(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.redeliver(bob.request(alice, "example:note:1", 60))
	alice.pullOne(delivery.Dropped, fault.InvalidBody)
	m := delivery.Message{To: alice.id.ACEID(), Type: "example:note:1", Body: members("a", "b")}
	for range 2 {
		entry, err := bob.node.Enqueue(t.Context(), m, w.now)
		if err != nil {
			t.Fatal(err)
		}
		bob.attempt(entry.MessageID)
		alice.pullOne(delivery.Rejected, fault.UnsupportedSchema)
	}
	if n := len(alice.set.Manifests()); n != installed {
		t.Errorf("%d profiles are installed, %d were before", n, installed)
	}
}
