package cli

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// sql runs statements on the store of the identity default, and leaves the
// write-ahead log as it is.
func (s *stage) sql(statements ...string) {
	s.t.Helper()
	conn, err := sqlconn.Open(sqlconn.FileURI(s.at("store.db")), func(err error) error { return err }, "busy_timeout(5000)", "journal_mode(WAL)")
	must(s.t, err)
	defer conn.Close()
	conn.KeepLog()
	for _, text := range statements {
		must(s.t, conn.Script(text))
	}
}

// queued adds a message of the Outbox that nobody waits for.
func (s *stage) queued(attempts int, first, next int64) {
	s.t.Helper()
	s.sql(fmt.Sprintf(`INSERT INTO outbox (message_id, peer, sealed, type, thread_id, request_id, created_at, state, attempts, first_attempt_at, next_attempt_at)
		VALUES ('4b0e4ee7-0000-4000-8000-00000000000%d', 'ace:sha256:00', x'7b7d', 'ace:text:1', '', '', 1, 'pending', %d, %d, %d)`, attempts, attempts, first, next))
}

func TestDoctorOfTheStore(t *testing.T) {
	oneThing(t)
	now := time.Now().Unix()
	away := func(s *stage) {
		for _, beside := range []string{"", "-wal", "-shm"} {
			must(s.t, os.RemoveAll(s.at("store.db"+beside)))
		}
	}
	fill := func(n int) func(*stage) {
		return func(s *stage) {
			s.sql(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
				INSERT INTO message (message_id, peer, type, thread_id, sealed, sent_at, received_at) SELECT printf('%%08x', i), 'p', 't', '', x'7b7d', 1, 1 FROM n`, n))
		}
	}
	empty := func(s *stage) { s.sql("UPDATE message SET handled = 1") }
	all := []illness{
		{name: "damaged", code: "store", severity: severityProblem, mend: away, make: func(s *stage) {
			s.must("status")
			f, err := os.OpenFile(s.at("store.db"), os.O_WRONLY, 0)
			must(s.t, err)
			for page := int64(2); page < 40; page++ {
				_, err = f.WriteAt(make([]byte, 512), page*4096)
				must(s.t, err)
			}
			must(s.t, f.Close())
		}},
		{name: "no store", code: "store", severity: severityProblem, mend: away, make: func(s *stage) {
			away(s)
			must(s.t, os.WriteFile(s.at("store.db"), make([]byte, 8192), 0o600))
			must(s.t, os.WriteFile(s.at("store.db"), []byte("this is not a database, and has never been one. It only lies there."), 0o600))
		}},
		{name: "newer", code: "store", severity: severityProblem, make: func(s *stage) { s.sql("PRAGMA user_version = 99") }, mend: away},
		{name: "older", code: "store", severity: severityNotice, make: func(s *stage) {
			away(s)
			must(s.t, os.WriteFile(s.at("store.db"), nil, 0o600))
		}},
		{name: "of another", code: "store", severity: severityProblem, mend: away, make: func(s *stage) {
			s.sql("UPDATE note SET value = 'ace:sha256:00' WHERE name = 'identity'")
		}},
		{name: "long log", code: "store_log", severity: severityWarning, make: func(s *stage) {
			s.sql("PRAGMA wal_autocheckpoint = 0", "INSERT OR REPLACE INTO note VALUES ('x', hex(zeroblob(9000000)))")
		}},
		{name: "nearly full", code: "inbox_full", severity: severityWarning, mend: empty, make: fill(80_000)},
		{name: "full", code: "inbox_full", severity: severityProblem, mend: empty, make: fill(100_000)},
		{name: "ending", code: "outbox_ending", severity: severityWarning,
			make: func(s *stage) { s.queued(1, now-wire.OfflineWindowSeconds+3600, now+3600) },
			mend: func(s *stage) { s.sql("UPDATE outbox SET state = 'expired', settled_at = 2") }},
		{name: "damaged rows", code: "damaged_rows", severity: severityWarning,
			make: func(s *stage) {
				s.damage("default", func(tx *store.Tx) error {
					return tx.AddMessage(store.Message{MessageID: "1", Peer: "p", Body: []byte("{}"), ReceivedAt: now})
				})
			},
			mend: func(s *stage) { s.sql("DELETE FROM message") }},
		{name: "quarantine", code: "quarantine", severity: severityNotice, make: func(s *stage) { s.quarantine("default", `{}`) },
			mend: func(s *stage) { s.must("quarantine", "drop", "1", "--yes") }},
		{name: "clock a little back", code: "clock_set_back", severity: severityWarning,
			make: func(s *stage) { s.ahead.Store(-200) }, mend: func(s *stage) { s.ahead.Store(0) }},
		{name: "clock back", code: "clock_set_back", severity: severityProblem,
			make: func(s *stage) {
				s.sql(fmt.Sprintf("INSERT INTO message (message_id, peer, type, thread_id, sealed, sent_at, received_at, handled) VALUES ('1', 'p', 't', '', x'7b7d', 1, %d, 1)", now+1000))
			},
			mend: func(s *stage) { s.ahead.Store(1000) }},
	}
	for i := range all {
		make := all[i].make
		all[i].make = func(s *stage) { s.must("status", "--offline"); make(s) }
	}
	suffer(t, false, all)
}

// Attempts that nobody has made are made by what doctor says.
func TestDoctorOfAnOverdueOutbox(t *testing.T) {
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--relay", "dev")
	bob := s.befriend()
	s.suffer(illness{code: "outbox_overdue", severity: severityWarning, make: func(s *stage) {
		s.must("send", bob, "hello", "--no-attempt")
		s.sql(fmt.Sprintf("UPDATE outbox SET next_attempt_at = %d", time.Now().Unix()-3*3600))
	}})
}

// befriend makes the identities default and bob contacts of each other and returns
// the ACE ID of bob.
func (s *stage) befriend() string {
	s.t.Helper()
	s.must("init", "--yes", "--name", "bob", "--relay", "dev", "--contact", "open", "--accept", "text")
	s.must("identity", "use", "default")
	bob := s.must("--as", "bob", "identity", "show", "--jq", ".ace_id")
	s.must("connect", bob)
	s.must("--as", "bob", "pull")
	s.must("pull")
	return bob
}

// A damaged message is not what anybody waits for, and keeps none from coming.
func TestWaitPassesOverDamage(t *testing.T) {
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--relay", "dev")
	bob := s.befriend()
	s.damage("bob", func(tx *store.Tx) error {
		return tx.AddMessage(store.Message{MessageID: "1", Peer: "p", Type: "ace:text:1", Body: []byte("{}"), ReceivedAt: time.Now().Unix()})
	})
	if r := s.try("--as", "bob", "wait", "message", "--timeout", "1ns", "--fail-empty"); r.status != exitEmpty {
		t.Errorf("status %d: %s", r.status, r.out)
	}
	s.must("send", bob, "hello")
	if got := s.must("--as", "bob", "wait", "message", "--jq", ".untrusted.body.message"); got != "hello" {
		t.Errorf("got %q", got)
	}
}
