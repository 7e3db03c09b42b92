package core_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver that the test opens the store with

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// holds reports whether a text is in a file beside the agent's store.
func (a *agent) holds(text string) bool {
	a.t.Helper()
	dir := filepath.Dir(a.config.StorePath)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 { // the database and its log
		a.t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			a.t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// sql changes the rows of the agent's store behind its back.
func (a *agent) sql(statement string) {
	a.t.Helper()
	db, err := sql.Open("sqlite", a.config.StorePath)
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	result, err := db.Exec(statement)
	if err != nil {
		a.t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		a.t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// What was asked, sent and received is in no file of either side, whatever became
// of it.
func TestNothingWrittenIsInTheFiles(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	alice.publish(false)
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, "note-of-bob"); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, alice.pull(), core.EventContactRequest)
	if list, err := alice.Requests(t.Context()); err != nil || len(list) != 1 || list[0].Note != "note-of-bob" {
		t.Fatalf("requests %+v: %v", list, err)
	}
	check := func(when string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if alice.holds(text) || bob.holds(text) {
				t.Errorf("%s: %q is in a file", when, text)
			}
		}
		if !alice.holds(bob.ACEID()) || !bob.holds(alice.ACEID()) {
			t.Errorf("%s: no peer is in a file: the test does not look", when)
		}
	}
	check("held", "note-of-bob")
	if _, err := alice.Accept(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, bob.pull(), core.EventContact)
	bob.send(alice, "words-that-went")
	if _, err := bob.Enqueue(t.Context(), core.OutMessage{To: alice.ACEID(), Body: profile.TextBody("words-that-wait")}); err != nil {
		t.Fatal(err)
	}
	check("sent", "note-of-bob", "words-that-wait", "words-that-went")
	wantKinds(t, alice.pull(), core.EventMessage)
	wantKinds(t, bob.pull(), core.EventReceipt)
	check("received", "note-of-bob", "words-that-wait", "words-that-went")
}

// One row that does not open is shown as damaged, and says so when it is asked
// for by itself; the others are listed, sent and received as before.
func TestDamagedRowsStandAlone(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, open()), newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	befriend(carol, bob)
	want := map[string]string{} // text by message ID
	enqueue := func(to *agent, text string) string {
		t.Helper()
		out, err := bob.Enqueue(t.Context(), core.OutMessage{To: to.ACEID(), Body: profile.TextBody(text)})
		if err != nil {
			t.Fatal(err)
		}
		want[out.MessageID] = text
		return out.MessageID
	}
	broken := enqueue(alice, "broken")
	enqueue(alice, "behind it")
	enqueue(carol, "to somebody else")
	bob.sql("UPDATE outbox SET sealed = (SELECT sealed FROM outbox ORDER BY seq DESC LIMIT 1) WHERE message_id = '" + broken + "'")

	if n, err := bob.RetryDue(t.Context()); err != nil || n != 2 {
		t.Errorf("%d messages went out: %v", n, err)
	}
	list, err := bob.Outbox(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("outbox %+v: %v", list, err)
	}
	for _, out := range list {
		switch {
		case out.MessageID != broken && (out.Damaged || !out.Body.Equal(profile.TextBody(want[out.MessageID]))):
			t.Errorf("listed %+v", out)
		case out.MessageID == broken && (!out.Damaged || out.LastError != string(fault.StorageFailed) || out.State != core.StateQueued):
			t.Errorf("damaged: %+v", out)
		}
	}
	if _, err := bob.Attempt(t.Context(), broken); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("attempted: %v", err)
	}
	if out, err := bob.Abandon(t.Context(), broken); err != nil || out.State != core.StateAbandoned {
		t.Errorf("abandoned %+v: %v", out, err)
	}

	wantKinds(t, alice.pull(), core.EventMessage)
	bob.send(alice, "a second one")
	wantKinds(t, alice.pull(), core.EventMessage)
	alice.sql("UPDATE message SET sealed = (SELECT sealed FROM message ORDER BY seq DESC LIMIT 1) WHERE seq = (SELECT min(seq) FROM message)")
	inbox, err := alice.Inbox(t.Context(), core.InboxFilter{})
	if err != nil || len(inbox) != 2 || !inbox[0].Damaged || inbox[1].Damaged || !inbox[1].Body.Equal(profile.TextBody("a second one")) {
		t.Errorf("inbox %+v: %v", inbox, err)
	}
	if _, err := alice.Message(t.Context(), inbox[0].MessageID, ""); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("read: %v", err)
	}
	if err := alice.MarkHandled(t.Context(), bob.ACEID(), inbox[0].MessageID); err != nil {
		t.Errorf("marked as read: %v", err)
	}
}

// A held request that does not open is listed, keeps none from being held, and
// goes with its peer.
func TestDamagedRequestStandsAlone(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, open()), newAgent(t, r, closed()), newAgent(t, r, closed())
	alice.publish(false)
	ask := func(a *agent) {
		t.Helper()
		if _, err := a.Connect(t.Context(), alice.ACEID(), profile.TextID, "hi"); err != nil {
			t.Fatal(err)
		}
		wantKinds(t, alice.pull(), core.EventContactRequest)
	}
	ask(bob)
	alice.sql("UPDATE request SET sealed = x'00'")
	ask(carol)
	list, err := alice.Requests(t.Context())
	if err != nil || len(list) != 2 || !list[0].Damaged || list[0].Note != "" || list[1].Damaged || list[1].Note != "hi" {
		t.Fatalf("requests %+v: %v", list, err)
	}
	if st, err := alice.Status(t.Context(), core.StatusOptions{Offline: true}); err != nil || st.Requests != 2 {
		t.Errorf("status %+v: %v", st, err)
	}
	if _, err := alice.Accept(t.Context(), bob.ACEID()); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("accepted: %v", err)
	}
	if _, err := alice.Forget(t.Context(), bob.ACEID()); err != nil {
		t.Errorf("forgotten: %v", err)
	}
	if _, err := alice.Accept(t.Context(), carol.ACEID()); err != nil {
		t.Error(err)
	}
	if list, err := alice.Requests(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("requests %+v: %v", list, err)
	}
}
