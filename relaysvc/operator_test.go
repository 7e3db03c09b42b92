package relaysvc_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// listed returns an agent in the directory, with a handle and open contact.
func (r *relay) listed(handle string) *agent {
	r.t.Helper()
	a := r.registered()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Handle: handle, Listed: true}, -1).Raw()))
	return a
}

// whole is all of an answer that a client sees, the time it was given apart.
func (a answer) whole() string {
	header := a.header.Clone()
	header.Del("Date")
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		lines = append(lines, fmt.Sprint(name, " ", header[name]))
	}
	return fmt.Sprintf("%d\n%s\n%s", a.status, strings.Join(lines, "\n"), a.body)
}

// TestASuspendedIdentityLooksUnknown to everybody but itself, to the byte
// (07#send): with a permit and without, for a packet that is queued already
// and a new one, and in every lookup.
func TestASuspendedIdentityLooksUnknown(t *testing.T) {
	r := start(t, nil)
	a, unknown := r.listed("alice"), r.newAgent()
	from := strangerID()
	queued := a.packet(from)
	r.expect("ok", r.send(queued, a.permit(from)))
	must(t, r.server.Operator().Suspend(t.Context(), a.aceID(), true))

	get := func(path string) answer { return r.do(call{method: "GET", path: path}) }
	for name, pair := range map[string][2]answer{
		"a new packet":      {r.send(a.packet(from), a.permit(from)), r.send(unknown.packet(from), a.permit(from))},
		"one that is there": {r.send(queued, a.permit(from)), r.send(unknown.packet(from), a.permit(from))},
		"from a stranger":   {r.send(a.packet(strangerID()), nil), r.send(unknown.packet(strangerID()), nil)},
		"descriptor":        {get("/v1/descriptor/" + a.aceID()), get("/v1/descriptor/" + unknown.aceID())},
		"card":              {get("/v1/card/" + a.aceID()), get("/v1/card/" + unknown.aceID())},
		"handle":            {get("/v1/handles/alice"), get("/v1/handles/nobody")},
	} {
		if got, want := pair[0].whole(), pair[1].whole(); got != want {
			t.Errorf("%s:\n%s\nof an unknown one:\n%s", name, got, want)
		}
	}
	if page := get("/v1/cards"); string(page.body) != `{"cards":[],"cursor":null}` {
		t.Errorf("directory: %s", page.body)
	}
	// What it publishes meanwhile does not bring it back.
	r.now.Add(10)
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{Handle: "alice", Listed: true}, epoch).Raw()))
	r.expect("ok", a.register(epoch+10))
	r.expect("unknown_peer", get("/v1/card/"+a.aceID()))
	if page := get("/v1/cards"); string(page.body) != `{"cards":[],"cursor":null}` {
		t.Errorf("directory after a publication: %s", page.body)
	}

	// Its own it fetches as before.
	same(t, texts(a.messages()), []string{string(queued)})
	must(t, r.server.Operator().Suspend(t.Context(), a.aceID(), false))
	r.expect("ok", get("/v1/card/"+a.aceID()))
	r.expect("ok", get("/v1/handles/alice"))
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
}

// TestASuspensionOutlivesARegistration: an identity that is purged and comes
// back is out of sight all the same.
func TestASuspensionOutlivesARegistration(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	must(t, r.server.Operator().Suspend(t.Context(), a.aceID(), true))
	must(t, r.server.Operator().Purge(t.Context(), a.aceID()))
	r.now.Add(10)
	r.expect("ok", a.register(epoch+10))
	from := strangerID()
	r.expect("not_permitted", r.send(a.packet(from), a.permit(from)))
}

// TestPurgeEndsAStream, and nothing comes on it afterwards. No registration up
// to then can be played back (07#registration).
func TestPurgeEndsAStream(t *testing.T) {
	r := start(t, nil)
	a, from := r.listed("alice"), strangerID()
	permit := a.permit(from)
	l := a.listen("-")
	l.want("connected", "")
	p := a.packet(from)
	r.expect("ok", r.send(p, permit))
	l.want("message", string(p))
	old := a.registration(epoch)

	o := r.server.Operator()
	must(t, o.Purge(t.Context(), a.aceID()))
	r.expect("not_permitted", r.send(a.packet(from), permit))
	l.wantEnd()
	r.expect("not_registered", a.inbox())
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/card/" + a.aceID()}))
	if got := r.do(call{method: "POST", path: "/v1/register", body: old}); got.outcome(t) == "ok" {
		t.Error("the registration was played back")
	}
	if err := o.Purge(t.Context(), a.aceID()); fault.CodeOf(err) != fault.NotRegistered {
		t.Errorf("purged twice: %v", err)
	}

	r.now.Add(10)
	r.expect("ok", a.register(epoch+10))
	if got := a.messages(); len(got) != 0 {
		t.Errorf("%d packets came back", len(got))
	}
}

// TestAQuotaBoundsAQueue: at its bound a send is refused, and what is queued
// stays, also where that is more.
func TestAQuotaBoundsAQueue(t *testing.T) {
	r := start(t, nil)
	a, from := r.registered(), strangerID()
	permit, o := a.permit(from), r.server.Operator()
	for range 3 {
		r.expect("ok", r.send(a.packet(from), permit))
	}
	must(t, o.SetQuota(t.Context(), a.aceID(), &relaydb.Quota{Entries: 2, Bytes: 1 << 30}))
	r.expect("recipient_inbox_full", r.send(a.packet(from), permit))
	entries := a.messages()
	if len(entries) != 3 {
		t.Fatalf("%d packets", len(entries))
	}
	r.expect("ok", a.ack(entries[1].StreamID))
	r.expect("ok", r.send(a.packet(from), permit))
	r.expect("recipient_inbox_full", r.send(a.packet(from), permit))

	must(t, o.SetQuota(t.Context(), a.aceID(), &relaydb.Quota{Entries: 100, Bytes: 1}))
	r.expect("recipient_inbox_full", r.send(a.packet(from), permit))
	must(t, o.SetQuota(t.Context(), a.aceID(), nil))
	r.expect("ok", r.send(a.packet(from), permit))
	for _, q := range []relaydb.Quota{{Entries: 0, Bytes: 1}, {Entries: 1, Bytes: 0}} {
		if err := o.SetQuota(t.Context(), a.aceID(), &q); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestReservedHandles keeps all that look like one from being claimed, until it
// is released.
func TestReservedHandles(t *testing.T) {
	r := start(t, nil)
	a, o := r.registered(), r.server.Operator()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	claim := func(handle string, previous int64) answer {
		return a.post("/v1/card", a.card(descriptor.CardRecord{Handle: handle}, previous).Raw())
	}
	must(t, o.Reserve(t.Context(), "root"))
	r.expect("handle_taken", claim("r0-ot", -1))
	must(t, o.Release(t.Context(), "r00t"))
	if err := o.Release(t.Context(), "root"); fault.CodeOf(err) != fault.UnknownPeer || !strings.Contains(err.Error(), "root is not reserved") {
		t.Errorf("released twice: %v", err)
	}
	r.expect("ok", claim("r0-ot", -1))
	if err := o.Reserve(t.Context(), "root"); fault.CodeOf(err) != relayapi.HandleTaken {
		t.Errorf("reserved a bound one: %v", err)
	}
	for _, bad := range []error{o.Reserve(t.Context(), "No"), o.Release(t.Context(), "No")} {
		if fault.CodeOf(bad) != fault.InvalidArgument {
			t.Error(bad)
		}
	}
	if _, err := o.Account(t.Context(), wire.ACEID(strings.Repeat("0", 64))); fault.CodeOf(err) != fault.UnknownPeer {
		t.Errorf("an unknown account: %v", err)
	}
}

// TestAccountsAndHandles shows an operator what is stored of each.
func TestAccountsAndHandles(t *testing.T) {
	r := start(t, nil)
	a, b, from := r.listed("alice"), r.published(), strangerID()
	o := r.server.Operator()
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
	r.expect("ok", r.send(a.packet(from), a.permit(from)))
	r.expect("ok", r.send(a.packet(strangerID()), nil))
	got, err := o.Account(t.Context(), a.aceID())
	must(t, err)
	if got.Handle != "alice" || got.Entries != 2 || got.Bytes == 0 || got.Strangers != 1 || got.RetiredAt != 0 || got.Stored == 0 {
		t.Errorf("account %+v", got)
	}
	r.now.Add(5)
	must(t, o.Purge(t.Context(), a.aceID()))
	all, err := o.Accounts(t.Context(), "", 10)
	must(t, err)
	if len(all) != 2 || all[0].ACEID >= all[1].ACEID {
		t.Fatalf("accounts %+v", all)
	}
	rest, err := o.Accounts(t.Context(), all[0].ACEID, 10)
	must(t, err)
	if len(rest) != 1 || rest[0] != all[1] {
		t.Errorf("after the first: %+v", rest)
	}
	for _, i := range all {
		switch i.ACEID {
		case a.aceID():
			if i.Registered || i.Handle != "alice" || i.RetiredAt != epoch+5 || i.Entries != 0 || i.Strangers != 0 {
				t.Errorf("purged: %+v", i)
			}
		case b.aceID():
			if !i.Registered || i.Handle != "" {
				t.Errorf("the other: %+v", i)
			}
		}
	}

	must(t, o.Reserve(t.Context(), "root"))
	handles, err := o.Handles(t.Context(), "", 10)
	must(t, err)
	want := []relaydb.Handle{{Handle: "alice", ACEID: a.aceID(), At: epoch}, {Handle: "root", At: epoch + 5}}
	if !slices.Equal(handles, want) {
		t.Errorf("handles %+v", handles)
	}
	if handles, err = o.Handles(t.Context(), "alice", 10); err != nil || !slices.Equal(handles, want[1:]) {
		t.Errorf("after alice: %+v, %v", handles, err)
	}
	if handles, err = o.Handles(t.Context(), "", 1); err != nil || !slices.Equal(handles, want[:1]) {
		t.Errorf("one of them: %+v, %v", handles, err)
	}
}
