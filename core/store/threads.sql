-- Schema 2: what profile rules keep of threads (08#profile-rules).

-- A thread of the rules of one profile with one peer. opener is the ACE ID that
-- sent the first entry; sent is 1 once this identity has sent one; head_at is the
-- timestamp of the last one.
CREATE TABLE thread (
  profile   TEXT NOT NULL,
  peer      TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  state     TEXT NOT NULL,
  final     INTEGER NOT NULL,
  opener    TEXT NOT NULL,
  sent      INTEGER NOT NULL,
  entries   INTEGER NOT NULL,
  head_at   INTEGER NOT NULL,
  PRIMARY KEY (profile, peer, thread_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_open ON thread (profile, peer, final);
CREATE INDEX thread_deletable ON thread (profile, head_at) WHERE final = 1 OR sent = 0;

-- The history of a thread: the accepted messages, numbered from 1.
CREATE TABLE thread_entry (
  profile    TEXT NOT NULL,
  peer       TEXT NOT NULL,
  thread_id  TEXT NOT NULL,
  position   INTEGER NOT NULL,
  type       TEXT NOT NULL,
  message_id TEXT NOT NULL,
  timestamp  INTEGER NOT NULL,
  sender     TEXT NOT NULL,
  PRIMARY KEY (profile, peer, thread_id, position),
  UNIQUE (profile, peer, sender, message_id),
  FOREIGN KEY (profile, peer, thread_id) REFERENCES thread ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Which threads have a message under way, and which one was ever sent on.
CREATE INDEX outbox_thread_pending ON outbox (peer, thread_id, type) WHERE state = 'pending' AND thread_id <> '';
CREATE INDEX outbox_thread ON outbox (peer, thread_id) WHERE thread_id <> '';
