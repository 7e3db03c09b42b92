package relaysvc_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// seed stops the relay, seeds its store and runs it again.
func (r *relay) seed(lines ...[]byte) (relaysvc.Seeded, error) {
	r.t.Helper()
	r.stop()
	server, err := relaysvc.New(relaysvc.Config{PublicURL: r.url, Development: true, DBPath: r.path, Clock: r.now.Load})
	must(r.t, err)
	done, failed := server.Seed(r.t.Context(), bytes.NewReader(bytes.Join(lines, []byte("\n"))))
	must(r.t, server.Close())
	r.run(nil)
	return done, failed
}

func TestSeed(t *testing.T) {
	r := start(t, nil)
	a, b, c := r.newAgent(), r.newAgent(), r.newAgent()
	listed := descriptor.CardRecord{Handle: "alice", Listed: true}
	document, card := a.descriptor(-1).Raw(), a.card(listed, -1).Raw()
	done, err := r.seed(document, nil, card, b.descriptorAt(-1, elsewhere).Raw(), c.card(descriptor.CardRecord{Home: elsewhere}, -1).Raw(), document, []byte("  "))
	must(t, err)
	if done != (relaysvc.Seeded{Agents: 3, Cards: 2, Elsewhere: 2}) {
		t.Errorf("seeded %+v", done)
	}
	if got, want := a.publications("alice"), (publications{"ok", "ok", "ok", 1}); got != want {
		t.Errorf("then %+v, want %+v", got, want)
	}
	if got, want := b.publications("bob"), (publications{"ok", "unknown_peer", "unknown_peer", 1}); got != want {
		t.Errorf("an agent of another relay: %+v, want %+v", got, want)
	}
	served := r.do(call{method: "GET", path: "/v1/descriptor/" + a.aceID()}).body
	if !bytes.Equal(served, document) {
		t.Errorf("served is not what was seeded: %.80s", served)
	}

	// A seeded identity is a registered one, and its own registration replaces
	// what was vouched for.
	packet := a.packet(strangerID())
	r.expect("ok", r.send(packet, nil))
	r.expect("ok", a.inbox())
	got := a.register(epoch)
	r.expect("ok", got)
	if !strings.Contains(string(got.body), string(relayapi.Refreshed)) {
		t.Errorf("its own registration: %s", got.body)
	}
	same(t, texts(a.messages()), []string{string(packet)})

	// Once more is no other thing.
	if done, err := r.seed(document, card); err != nil || done.Agents != 1 || done.Cards != 1 {
		t.Errorf("seeded again: %+v, %v", done, err)
	}
}

// Handles of a seed are not counted for the day of anybody's client network.
func TestSeedCountsNoClaims(t *testing.T) {
	r := start(t, nil)
	var lines [][]byte
	for i := range wire.HandleClaimsPerNetworkPerDay + 1 {
		lines = append(lines, r.newAgent().card(descriptor.CardRecord{Handle: "agent-" + strings.Repeat("x", i+1)}, -1).Raw())
	}
	if done, err := r.seed(lines...); err != nil || done.Cards != len(lines) {
		t.Fatalf("seeded %+v: %v", done, err)
	}
	a := r.registered()
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()))
}

func TestSeedRefuses(t *testing.T) {
	r := start(t, nil)
	a, b := r.newAgent(), r.newAgent()
	good, card := a.descriptor(-1).Raw(), a.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()
	old := a.descriptor(-1).Raw()
	gone := r.registered()
	r.expect("ok", gone.unregister(epoch+1))
	a.delegate(epoch)
	other := a.descriptor(-1).Raw()
	for name, c := range map[string]struct {
		line string
		want fault.Code
		then string // part of the message
	}{
		"no JSON":             {"{", fault.InvalidArgument, "line 3: "},
		"a registration":      {string(b.registration(epoch)), fault.InvalidArgument, "neither"},
		"no object":           {"[]", fault.InvalidArgument, "neither"},
		"two on a line":       {string(good) + string(good), fault.InvalidArgument, ""},
		"forged":              {string(within(t, old, "descriptor", "expiresAt", wire.NewInt(epoch+7))), fault.InvalidAuthorization, ""},
		"an unknown member":   {string(with(t, old, "more", wire.NewInt(1))), fault.InvalidAuthorization, ""},
		"a handle held":       {string(b.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw()), relayapi.HandleTaken, ""},
		"another log":         {string(other), fault.KELConflict, ""},
		"unregistered before": {string(gone.descriptor(-1).Raw()), relayapi.IdentityConflict, "barrier"},
		"older":               {string(within(t, good, "descriptor", "issuedAt", wire.NewInt(1))), fault.InvalidAuthorization, ""},
		"too long":            {strings.Repeat(" ", 2*wire.MaxPublishedAgentBytes) + "{}", fault.InvalidArgument, "line 3: over"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.seed(good, card, []byte(c.line), []byte("never read"))
			if fault.CodeOf(err) != c.want || !strings.Contains(err.Error(), "line 3: ") || !strings.Contains(err.Error(), c.then) {
				t.Errorf("got %s: %v, want %s", fault.CodeOf(err), err, c.want)
			}
		})
	}
	// What has expired is refused as on publication.
	r.now.Store(epoch + 3600)
	if _, err := r.seed(good); fault.CodeOf(err) != fault.InvalidAuthorization {
		t.Errorf("expired: %v", err)
	}
}

func TestSeedIsForDevelopment(t *testing.T) {
	server, err := relaysvc.New(relaysvc.Config{PublicURL: elsewhere, DBPath: filepath.Join(t.TempDir(), "data", "relay.db")})
	must(t, err)
	defer server.Close()
	if _, err := server.Seed(t.Context(), strings.NewReader("")); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("seeded in production: %v", err)
	}
}
