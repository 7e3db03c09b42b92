-- What the owner's policy needs, and the order of the Outbox.

-- A message that waits for its owner is in the state pending_approval. held_at is
-- when it was written, 0 for one that was never held, held_until when it is
-- rejected for want of a decision. reason says why an entry does not go on, or
-- how its owner ended it: see delivery's reasons, '' for none.
ALTER TABLE outbox ADD COLUMN held_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN reason TEXT NOT NULL DEFAULT '';
CREATE INDEX outbox_held ON outbox (held_until) WHERE state = 'pending_approval';

-- Those not attempted yet, by recipient and in the order they were queued.
CREATE INDEX outbox_first ON outbox (peer, seq) WHERE state = 'pending' AND attempts = 0;

-- Messages that the policy keeps from their reader: delivery records like those of
-- message, which no list, stream or handler reads.
CREATE TABLE withheld (
  number      INTEGER PRIMARY KEY,
  message_id  TEXT NOT NULL,
  peer        TEXT NOT NULL,
  type        TEXT NOT NULL,
  thread_id   TEXT NOT NULL,
  sealed      BLOB NOT NULL,
  sent_at     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  UNIQUE (message_id, peer)
) STRICT;

-- 'quarantine' is the number last given to something in quarantine, a packet or a
-- message: a number means one thing for good.
INSERT INTO counter SELECT 'quarantine', coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'quarantine'), 0);
