-- Schema 4: what a received message writes is in few pages, each of which its
-- commit has to bring to the disk. What was written for each message and can be
-- told from other rows is not written.

-- The delivery records, as before but with one index that finds them by message
-- ID, and without a number kept beside the table: rows are added at its end and
-- stay.
CREATE TABLE message_4 (
  seq         INTEGER PRIMARY KEY,
  message_id  TEXT NOT NULL,
  peer        TEXT NOT NULL,
  type        TEXT NOT NULL,
  thread_id   TEXT NOT NULL,
  body        BLOB NOT NULL,
  sent_at     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  handled     INTEGER NOT NULL DEFAULT 0,
  UNIQUE (message_id, peer)
) STRICT;
INSERT INTO message_4 SELECT seq, message_id, peer, type, thread_id, body, sent_at, received_at, handled FROM message ORDER BY seq;
DROP TABLE message;
ALTER TABLE message_4 RENAME TO message;
CREATE INDEX message_unhandled ON message (seq) WHERE handled = 0;

-- 'handled' is how many of the numbers up to the highest seq are not those of an
-- unhandled message: taking one in does not change it.
INSERT INTO counter SELECT 'handled', coalesce((SELECT max(seq) FROM message), 0) - value FROM counter WHERE name = 'unhandled';
DELETE FROM counter WHERE name = 'unhandled';

CREATE TRIGGER message_added AFTER INSERT ON message WHEN NEW.handled <> 0 BEGIN
  UPDATE counter SET value = value + 1 WHERE name = 'handled';
END;
CREATE TRIGGER message_handled AFTER UPDATE OF handled ON message WHEN NEW.handled <> OLD.handled BEGIN
  UPDATE counter SET value = value + NEW.handled - OLD.handled WHERE name = 'handled';
END;

-- The seen store (06#deduplication), sorted by sender: its smallest entry is the
-- first of the sender whose earliest is the smallest. The program keeps
-- seen_sender with it. The row of no sender ('') counts the entries of all, and
-- its earliest is nobody's.
CREATE TABLE seen_4 (
  peer       TEXT NOT NULL,
  timestamp  INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  PRIMARY KEY (peer, timestamp, message_id)
) STRICT, WITHOUT ROWID;
INSERT INTO seen_4 SELECT peer, timestamp, message_id FROM seen ORDER BY peer, timestamp, message_id;
DROP TABLE seen;
ALTER TABLE seen_4 RENAME TO seen;
CREATE UNIQUE INDEX seen_message ON seen (message_id, peer);

DROP TABLE seen_sender;
CREATE TABLE seen_sender (
  peer     TEXT PRIMARY KEY,
  entries  INTEGER NOT NULL,
  earliest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO seen_sender SELECT peer, count(*), min(timestamp) FROM seen GROUP BY peer;
INSERT INTO seen_sender SELECT '', count(*), 0 FROM seen;
CREATE INDEX seen_sender_earliest ON seen_sender (earliest, peer) WHERE peer <> '';
DELETE FROM counter WHERE name = 'seen_total';
INSERT INTO counter SELECT 'sender_horizons', count(*) FROM seen_horizon;

-- Seeds whose time has ended (04#prekey) are looked for with each packet.
CREATE INDEX prekey_ending ON prekey (at) WHERE slot <> 'current';
