package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/store"
)

// owned is what a peer writes where the protocol lets it: a C1 control that ends a
// line, characters that turn the text around, and ones that nobody sees. With an
// escape sequence and a line of its own it is ownedLines, for where controls are
// allowed.
const (
	owned      = "\u202eowned\u0085\u2066x\u200b\U000e0041\u009b2J"
	ownedLines = owned + "\x1b]52;c;b3duZWQ=\x07\r\nforged: owned"
	odd        = "\u202e\x1b[2J" // where no peer can write: types, codes and stream IDs have forms of their own
)

// show runs a command for a terminal or a pipe and returns all that it prints.
func (s *stage) show(tty bool, args ...string) string {
	s.t.Helper()
	var out bytes.Buffer
	o := s.io("")
	o.Out, o.Err, o.OutTTY, o.ErrTTY, o.Columns = &out, &out, tty, tty, 200
	run(context.Background(), append(args, "--color", "never"), o)
	return out.String()
}

// harmless fails where an output could do something to a terminal, or has a line
// that a peer wrote as if it were one of ours.
func harmless(t *testing.T, what, out string) {
	t.Helper()
	for _, r := range out {
		if hostile(r) && r != '\n' && r != '\t' {
			t.Errorf("%s lets %U through:\n%q", what, r, out)
			return
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "forged") {
			t.Errorf("%s has a line of the peer's:\n%s", what, out)
		}
	}
}

// unmarked returns the paths of strings that a peer chose and that are not below a
// member named untrusted.
func unmarked(v any, path string) (found []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if name != "untrusted" {
				found = append(found, unmarked(member, path+"."+name)...)
			}
		}
	case []any:
		for _, item := range v {
			found = append(found, unmarked(item, path+"[]")...)
		}
	case string:
		if strings.Contains(v, "owned") {
			found = append(found, path)
		}
	}
	return found
}

// mine are the members whose text is the owner's own, or that of a document as it
// came, which is asked for as a whole.
var mine = map[string]bool{
	"ace outbox show .body.message": true, "ace outbox show .thread_id": true, "ace outbox list [].thread_id": true,
	"ace outbox retry .thread_id":       true,
	"ace quarantine show .packet.owned": true,
}

// Whatever a peer or a relay writes into what it may, no command lets it act on a
// terminal, and JSON has it below untrusted (agentlink-messages: "Content from
// other agents is always marked untrusted").
func TestWhatPeersWriteIsHarmless(t *testing.T) {
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--name", "alice", "--relay", "dev", "--contact", "open", "--profiles", "text,commerce")
	s.must("init", "--yes", "--name", "bob", "--relay", "dev", "--contact", "open", "--handle", "bob", "--listed", "--profiles", "text,commerce")
	s.must("--as", "bob", "card", "set", "--description", owned, "--tag", "t", "--yes")
	id := func(name string) string { return s.must("--as", name, "identity", "show", "--jq", ".ace_id") }
	alice, bob := id("alice"), id("bob")
	s.must("--as", "bob", "connect", alice, "--note", ownedLines)
	s.must("--as", "alice", "pull")

	const message = "01234567-89ab-4def-8123-456789abcdef"
	now := time.Now().Unix()
	body, err := json.Marshal(map[string]string{"message": ownedLines})
	if err != nil {
		t.Fatal(err)
	}
	content := `{"body":` + string(body) + `,"schemaDigest":"` + strings.Repeat("0", 64) + `","threadId":"` + owned + `","type":"ace:text:1"}`
	s.inStore("alice", func(tx *store.Tx) error {
		return errors.Join(
			tx.AddMessage(store.Message{MessageID: message, Peer: bob, Type: "ace:text:1", ThreadID: owned, Body: body, ReceivedAt: now}),
			tx.AddMessage(store.Message{MessageID: "1" + message[1:], Peer: bob, Type: "x:" + odd, ThreadID: owned, Body: body, ReceivedAt: now}),
			tx.AddOutbox(store.OutboxEntry{
				MessageID: message, Peer: bob, Content: []byte(content), Type: "ace:text:1", ThreadID: owned, State: store.Rejected, SettledAt: now,
				CreatedAt: now, RemoteCode: odd, LastError: odd,
			}),
			tx.AddOutbox(store.OutboxEntry{
				MessageID: "1" + message[1:], Peer: bob, Content: []byte(content), Type: "ace:commerce-rfq:1", ThreadID: owned, State: store.Pending,
				CreatedAt: now, NextAttemptAt: now + 1000, LastError: odd,
			}),
			tx.AddQuarantine(store.Quarantined{StreamID: odd, Packet: []byte(`{"owned":"` + owned + `"}`), Code: "fetch_failed", At: now}),
			tx.SaveThread(store.Thread{Profile: "ace:commerce:1", Peer: bob, ThreadID: owned, State: "rfq", Opener: bob, Entries: 1, HeadAt: now},
				store.ThreadEntry{Type: "ace:commerce-rfq:1", MessageID: message, Timestamp: now, Sender: bob}))
	})

	for _, args := range [][]string{
		{"contact", "requests"}, {"contact", "show", bob}, {"contact", "list"}, {"inbox"}, {"read", message}, {"read", "1" + message[1:]},
		{"read", message, "--raw"}, {"outbox", "list"}, {"outbox", "show", message}, {"outbox", "show", "1" + message[1:]},
		{"quarantine", "list"}, {"quarantine", "show", "1"}, {"thread", "list"}, {"thread", "show", owned}, {"lookup", bob}, {"find"},
		{"why", bob}, {"why", bob, "--offline"}, {"status"}, {"inspect", message, "--as-relay"}, {"permit", "list"}, {"outbox", "retry", message},
		{"thread", "show", "no-" + owned}, {"read", "no-" + owned}, {"contact", "accept", "no-" + owned}, {"outbox", "show", "no-" + owned},
	} {
		command := commandOf(t, args)
		args = append([]string{"--as", "alice"}, args...)
		harmless(t, command+" for a terminal", s.show(true, args...))
		if !strings.Contains(strings.Join(args, " "), "--raw") { // which is the document, for a program
			harmless(t, command+" for a pipe", s.show(false, args...))
		}
		out := s.show(false, append(args, "--json")...)
		harmless(t, command+" as JSON", out)
		for line := range strings.Lines(out) {
			var v any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%s --json: %v: %s", command, err, line)
				continue
			}
			if m, ok := v.(map[string]any); ok && m["error"] != nil {
				continue // it quotes what was typed
			}
			for _, path := range unmarked(v, "") {
				if !mine[command+" "+path] {
					t.Errorf("%s --json has what a peer wrote at %s", command, path)
				}
			}
		}
	}
}

// So it is with what a relay answers.
func TestWhatARelayAnswersIsHarmless(t *testing.T) {
	answer, err := json.Marshal(map[string]string{"error": owned, "message": ownedLines})
	if err != nil {
		t.Fatal(err)
	}
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		w.Write(answer)
	}))
	defer relay.Close()
	s := newStage(t)
	s.must("init", "--yes", "--no-publish", "--allow-loopback", "--relay", relay.URL)
	told := false
	for _, args := range [][]string{
		{"publish"}, {"pull"}, {"listen", "--timeout", "5s"}, {"maintain"}, {"status"}, {"find"}, {"lookup", "@bob@" + strings.TrimPrefix(relay.URL, "http://")},
		{"unpublish", "--yes"}, {"wake", "clear"}, {"card", "diff"}, {"identity", "log", "--verify"},
	} {
		for _, tty := range []bool{true, false} {
			out := s.show(tty, args...)
			harmless(t, strings.Join(args, " "), out)
			told = told || strings.Contains(out, "owned")
		}
		harmless(t, strings.Join(args, " ")+" as JSON", s.show(false, append(args, "--json")...))
	}
	if !told {
		t.Error("no command tells what the relay answers: the test does not look")
	}
}
