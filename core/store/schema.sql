-- Schema 1 of the endpoint's store. Every table holds bytes and scalars: what
-- they mean is known by the packages above. Times are Unix seconds; peer is
-- always a full ACE ID.

-- Single values: name -> integer.
CREATE TABLE counter (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Single texts: name -> text.
CREATE TABLE note (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The verified key event log of each peer, never pruned (01#pinning).
CREATE TABLE pin (
  peer       TEXT PRIMARY KEY,
  kel        BLOB NOT NULL,
  fetched_at INTEGER NOT NULL
) STRICT;

-- When a packet last made the receiver refresh a pin (06#receive-pipeline step 3).
CREATE TABLE pin_refresh (
  peer TEXT PRIMARY KEY,
  at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The newest verified PublishedAgent of each peer (04#caching).
CREATE TABLE descriptor (
  peer TEXT PRIMARY KEY,
  raw  BLOB NOT NULL
) STRICT;

-- The newest verified CardBundle of each identity, and with it the horizon that
-- no later one may go behind (04#card-record).
CREATE TABLE card (
  peer          TEXT PRIMARY KEY,
  issued_at     INTEGER NOT NULL,
  claims_digest TEXT NOT NULL,
  raw           BLOB NOT NULL
) STRICT;

-- (home, handle) -> peer, for good (04#card-record).
CREATE TABLE handle_pin (
  home   TEXT NOT NULL,
  handle TEXT NOT NULL,
  peer   TEXT NOT NULL,
  PRIMARY KEY (home, handle)
) STRICT, WITHOUT ROWID;
CREATE INDEX handle_pin_peer ON handle_pin (peer, home);

-- Local names of peers.
CREATE TABLE petname (
  name TEXT PRIMARY KEY,
  peer TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- The admission table (05#05--admission). expires_at is 0 for an entry that stays.
CREATE TABLE contact (
  peer       TEXT PRIMARY KEY,
  state      TEXT NOT NULL,
  profile    TEXT NOT NULL,
  since      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Held contact requests in the order they were received (05#flow).
CREATE TABLE request (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  peer        TEXT NOT NULL UNIQUE,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL
) STRICT;

-- The newest permit issued to and held from each peer (05#delivery-permits).
CREATE TABLE permit (
  peer       TEXT NOT NULL,
  direction  TEXT NOT NULL CHECK (direction IN ('issued', 'held')),
  raw        BLOB NOT NULL,
  issued_at  INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (peer, direction)
) STRICT;

-- This identity's own documents, as last signed. relay is where the document
-- stands, or '' when no relay has confirmed it yet.
CREATE TABLE own (
  kind      TEXT PRIMARY KEY CHECK (kind IN ('descriptor', 'card')),
  issued_at INTEGER NOT NULL,
  raw       BLOB NOT NULL,
  relay     TEXT NOT NULL
) STRICT;

-- The last registration at each relay (07#registration).
CREATE TABLE registration (
  relay     TEXT PRIMARY KEY,
  timestamp INTEGER NOT NULL,
  kel_end   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- X-Wing keys of this identity (04#prekey, 04#peer-prekeys): peer is '' for
-- those of the descriptor. at is the time of generation of a current key, of
-- supersession of a superseded one, and of the last packet that carried an
-- offered or in-use one.
CREATE TABLE prekey (
  id         TEXT PRIMARY KEY,
  peer       TEXT NOT NULL,
  slot       TEXT NOT NULL CHECK (slot IN ('current', 'superseded', 'offered', 'in_use')),
  public_key BLOB NOT NULL,
  sealed     BLOB NOT NULL,
  at         INTEGER NOT NULL
) STRICT;
CREATE INDEX prekey_peer ON prekey (peer);

-- The peer prekey held of each peer (04#peer-prekeys).
CREATE TABLE held_prekey (
  peer       TEXT PRIMARY KEY,
  public_key BLOB NOT NULL,
  timestamp  INTEGER NOT NULL,
  pin        TEXT NOT NULL
) STRICT;

-- The Outbox (06#outbox-sender). state is pending, delivered, rejected or
-- expired; first_attempt_at and settled_at are 0 before.
CREATE TABLE outbox (
  seq              INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id       TEXT NOT NULL UNIQUE,
  peer             TEXT NOT NULL,
  content          BLOB NOT NULL,
  type             TEXT NOT NULL,
  thread_id        TEXT NOT NULL,
  request_id       TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  state            TEXT NOT NULL,
  attempts         INTEGER NOT NULL DEFAULT 0,
  first_attempt_at INTEGER NOT NULL DEFAULT 0,
  next_attempt_at  INTEGER NOT NULL,
  claimed_until    INTEGER NOT NULL DEFAULT 0,
  prekey           TEXT NOT NULL DEFAULT '',
  prekey_is_peer   INTEGER NOT NULL DEFAULT 0,
  relay            TEXT NOT NULL DEFAULT '',
  settled_at       INTEGER NOT NULL DEFAULT 0,
  abandoned        INTEGER NOT NULL DEFAULT 0,
  remote_code      TEXT NOT NULL DEFAULT '',
  last_error       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX outbox_due ON outbox (next_attempt_at) WHERE state = 'pending';
CREATE UNIQUE INDEX outbox_request ON outbox (peer, request_id) WHERE request_id <> '';

-- Receipts that were applied, each at most once (06#outbox-sender).
CREATE TABLE applied_receipt (
  message_id TEXT NOT NULL REFERENCES outbox (message_id) ON DELETE CASCADE,
  outcome    TEXT NOT NULL,
  prekey     TEXT NOT NULL,
  PRIMARY KEY (message_id, outcome, prekey)
) STRICT, WITHOUT ROWID;

-- The delivery records, which are the inbox too (06#receive-pipeline step 10).
CREATE TABLE message (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id  TEXT NOT NULL,
  peer        TEXT NOT NULL,
  type        TEXT NOT NULL,
  thread_id   TEXT NOT NULL,
  body        BLOB NOT NULL,
  sent_at     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  handled     INTEGER NOT NULL DEFAULT 0,
  UNIQUE (peer, message_id)
) STRICT;
CREATE INDEX message_id ON message (message_id);
CREATE INDEX message_unhandled ON message (seq) WHERE handled = 0;

CREATE TRIGGER message_added AFTER INSERT ON message WHEN NEW.handled = 0 BEGIN
  UPDATE counter SET value = value + 1 WHERE name = 'unhandled';
END;
CREATE TRIGGER message_handled AFTER UPDATE OF handled ON message WHEN NEW.handled <> OLD.handled BEGIN
  UPDATE counter SET value = value + OLD.handled - NEW.handled WHERE name = 'unhandled';
END;
CREATE TRIGGER message_removed AFTER DELETE ON message WHEN OLD.handled = 0 BEGIN
  UPDATE counter SET value = value - 1 WHERE name = 'unhandled';
END;
INSERT INTO counter VALUES ('unhandled', 0);

-- The seen store (06#deduplication). The counters of seen_sender and
-- 'seen_total' follow by trigger, so that no commit has to count.
CREATE TABLE seen (
  timestamp  INTEGER NOT NULL,
  peer       TEXT NOT NULL,
  message_id TEXT NOT NULL,
  PRIMARY KEY (timestamp, peer, message_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX seen_message ON seen (peer, message_id);
CREATE INDEX seen_peer ON seen (peer, timestamp, message_id);

CREATE TABLE seen_sender (
  peer    TEXT PRIMARY KEY,
  entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER seen_added AFTER INSERT ON seen BEGIN
  INSERT INTO seen_sender VALUES (NEW.peer, 1) ON CONFLICT DO UPDATE SET entries = entries + 1;
  UPDATE counter SET value = value + 1 WHERE name = 'seen_total';
END;
CREATE TRIGGER seen_removed AFTER DELETE ON seen BEGIN
  UPDATE seen_sender SET entries = entries - 1 WHERE peer = OLD.peer;
  DELETE FROM seen_sender WHERE peer = OLD.peer AND entries = 0;
  UPDATE counter SET value = value - 1 WHERE name = 'seen_total';
END;
INSERT INTO counter VALUES ('seen_total', 0);

CREATE TABLE seen_horizon (
  peer    TEXT PRIMARY KEY,
  horizon INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_horizon_order ON seen_horizon (horizon, peer);

-- Fetches of inbox entries that ended in retry (06#receive-pipeline).
CREATE TABLE fetch (
  stream_id TEXT PRIMARY KEY,
  retries   INTEGER NOT NULL,
  at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Entries given up after MAX_FETCH_ATTEMPTS (06#receive-pipeline).
CREATE TABLE quarantine (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  stream_id TEXT NOT NULL,
  packet    BLOB NOT NULL,
  code      TEXT NOT NULL,
  at        INTEGER NOT NULL
) STRICT;

-- What became of packets that were not delivered, newest entries only.
CREATE TABLE audit (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  peer       TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  code       TEXT NOT NULL
) STRICT;
