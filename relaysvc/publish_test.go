package relaysvc_test

import (
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// publications is what strangers see of an agent.
type publications struct {
	descriptor, card, handle string // outcome of the lookup
	listed                   int    // entries of the directory
}

func (a *agent) publications(handle string) publications {
	a.t.Helper()
	get := func(path string) answer { return a.do(call{method: "GET", path: path}) }
	page, err := relayapi.ParseDirectoryPage(get("/v1/cards").body)
	must(a.t, err)
	return publications{
		descriptor: get("/v1/descriptor/" + a.aceID()).outcome(a.t),
		card:       get("/v1/card/" + a.aceID()).outcome(a.t),
		handle:     get("/v1/handles/" + handle).outcome(a.t),
		listed:     len(page.Cards),
	}
}

// TestPublications follows an agent through what makes its documents count and
// not count (07#descriptors-and-cards).
func TestPublications(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	const handle = "alice"
	at := func(home string) descriptor.CardRecord {
		c := descriptor.CardRecord{Home: home, Listed: true}
		if home == "" {
			c.Handle = handle
		}
		return c
	}
	steps := []struct {
		name string
		do   func() answer
		want string
		then publications
	}{
		{"card", func() answer { return a.post("/v1/card", a.card(at(""), epoch+200).Raw()) }, "ok",
			publications{"unknown_peer", "ok", "ok", 0}},
		{"descriptor", func() answer { return a.post("/v1/descriptor", a.descriptor(epoch+200).Raw()) }, "ok",
			publications{"ok", "ok", "ok", 1}},
		{"other claims of the same time", func() answer {
			return a.post("/v1/descriptor", a.descriptorAt(epoch+200, r.url, elsewhere).Raw())
		}, "stale_descriptor", publications{"ok", "ok", "ok", 1}},
		{"rotation", func() answer { a.delegate(epoch); return a.register(epoch + 1) }, "ok",
			publications{"unknown_peer", "unknown_peer", "unknown_peer", 0}},
		{"an earlier card of the new kel", func() answer { return a.post("/v1/card", a.card(at(""), -1).Raw()) }, "ok",
			publications{"unknown_peer", "ok", "ok", 0}},
		{"an earlier descriptor of the new kel", func() answer { return a.post("/v1/descriptor", a.descriptor(-1).Raw()) }, "ok",
			publications{"ok", "ok", "ok", 1}},
		{"another handle", func() answer {
			c := at("")
			c.Handle = "alice-2"
			return a.post("/v1/card", a.card(c, epoch).Raw())
		}, "invalid_argument", publications{"ok", "ok", "ok", 1}},
		{"another home", func() answer { return a.post("/v1/card", a.card(at(elsewhere), epoch+1).Raw()) }, "ok",
			publications{"ok", "ok", "unknown_peer", 0}},
		{"home again", func() answer { return a.post("/v1/card", a.card(at(""), epoch+2).Raw()) }, "ok",
			publications{"ok", "ok", "ok", 1}},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.do().expect(t, s.want)
			if got := a.publications(handle); got != s.then {
				t.Fatalf("then %+v, want %+v", got, s.then)
			}
		})
	}
	t.Run("the same once more", func(t *testing.T) {
		d, c := a.descriptor(epoch+5).Raw(), a.card(at(""), epoch+5).Raw()
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				a.post("/v1/descriptor", d).expect(t, "ok")
				a.post("/v1/card", c).expect(t, "ok")
			})
		}
	})
}

// TestClockSetBack: a clock that was set back behind the last event of a stored
// KEL refuses requests for their time. The KEL itself was verified when it was
// stored, and is no failure of the store now.
func TestClockSetBack(t *testing.T) {
	r := start(t, nil)
	a := r.newAgent()
	a.delegate(epoch)
	r.expect("ok", a.register(epoch))
	r.stop()
	r.now.Store(epoch - 1000)
	r.run(nil)
	r.expect("stale_timestamp", a.inbox())
	r.now.Store(epoch)
	r.expect("ok", a.inbox())
}
