-- The relay's store, version 3. Times are Unix seconds. Objects are kept as
-- the canonical bytes they were verified from.

CREATE TABLE relay (
  one         INTEGER PRIMARY KEY CHECK (one = 1),
  generation  INTEGER NOT NULL,          -- first half of every stream ID given from now on
  restored_at INTEGER NOT NULL DEFAULT 0, -- when the store was last restored from a backup
  home        TEXT    NOT NULL DEFAULT '', -- the public URL for which the directory was made
  log_id      BLOB    NOT NULL,          -- of the packet log, 16 bytes
  synced      INTEGER NOT NULL DEFAULT 0 -- the end of a group of that log: what is before it has reached the disk
) STRICT;

INSERT INTO relay (one, generation, log_id) VALUES (1, 1, randomblob(16));

-- One row for each identity that ever registered, also after unregister.
CREATE TABLE identities (
  id            INTEGER PRIMARY KEY,
  ace_id        TEXT    NOT NULL UNIQUE,
  registered    INTEGER NOT NULL CHECK (registered IN (0, 1)),
  incarnation   INTEGER NOT NULL, -- grows when it registers, rotates or unregisters
  registered_at INTEGER NOT NULL, -- signed timestamp of the newest accepted registration
  digest        TEXT    NOT NULL, -- hex SHA-256 of its M
  barrier       INTEGER,          -- signed timestamp of the newest accepted unregister
  kel_end       TEXT    NOT NULL, -- hash of the last event of the KEL
  end_seq       INTEGER NOT NULL DEFAULT 0,  -- seq of that event
  epoch_seq     INTEGER NOT NULL DEFAULT 0,  -- seq of the last icp or rot, the epoch start
  epoch_hash    TEXT    NOT NULL DEFAULT '', -- hash of that event
  network       TEXT    NOT NULL, -- client network it registered from, to which its bytes are charged
  stored        INTEGER NOT NULL DEFAULT 0,  -- bytes charged for what is stored of it, its queue apart
  suspended     INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)), -- by the operator
  retired_at    INTEGER,          -- when it unregistered, null while registered
  kel_kept      INTEGER NOT NULL DEFAULT 1 CHECK (kel_kept IN (0, 1)) -- its KEL is in kels
) STRICT;

CREATE INDEX identities_retired ON identities (retired_at) WHERE retired_at IS NOT NULL AND kel_kept = 1;

-- What is charged to a client network: stored is the sum over the identities
-- that registered from it, queued that over the packets in their queues.
CREATE TABLE networks (
  network TEXT    PRIMARY KEY,
  stored  INTEGER NOT NULL DEFAULT 0,
  queued  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Apart from identities, because a KEL can have a megabyte. The row of an
-- unregistered identity goes when its retention is over; what is left of the
-- identity then, its horizon, is kept for good.
CREATE TABLE kels (
  identity INTEGER PRIMARY KEY REFERENCES identities (id),
  log      BLOB    NOT NULL
) STRICT;

-- agent is null after unregister and once it has expired, while issued_at and
-- claims still bound what may be published under the same KEL.
CREATE TABLE descriptors (
  identity   INTEGER PRIMARY KEY REFERENCES identities (id),
  kel_end    TEXT    NOT NULL,
  issued_at  INTEGER NOT NULL,
  claims     TEXT    NOT NULL, -- hex SHA-256 of the canonical claims
  expires_at INTEGER NOT NULL,
  agent      BLOB
) STRICT;

CREATE INDEX descriptors_expiry ON descriptors (expires_at) WHERE agent IS NOT NULL;

CREATE TABLE descriptor_profiles (
  identity INTEGER NOT NULL REFERENCES identities (id),
  profile  TEXT    NOT NULL,
  PRIMARY KEY (identity, profile)
) STRICT, WITHOUT ROWID;

CREATE TABLE cards (
  identity  INTEGER PRIMARY KEY REFERENCES identities (id),
  kel_end   TEXT    NOT NULL,
  issued_at INTEGER NOT NULL,
  claims    TEXT    NOT NULL,
  home      TEXT    NOT NULL,
  open      INTEGER NOT NULL CHECK (open IN (0, 1)), -- contact is "open"
  listed    INTEGER NOT NULL CHECK (listed IN (0, 1)), -- the record says so
  bundle    BLOB                                     -- null after unregister
) STRICT;

CREATE TABLE card_tags (
  identity INTEGER NOT NULL REFERENCES identities (id),
  tag      TEXT    NOT NULL,
  PRIMARY KEY (identity, tag)
) STRICT, WITHOUT ROWID;

-- What the directory shows, but for the expiry of descriptors: an identity for
-- each of its tags, or any (''), with each of its profiles, or any ('').
CREATE VIEW listings (tag, profile, ace_id, identity) AS
SELECT t.tag, p.profile, i.ace_id, i.id
FROM identities i JOIN cards c ON c.identity = i.id JOIN descriptors d ON d.identity = i.id
JOIN (SELECT id AS identity, '' AS tag FROM identities UNION ALL SELECT identity, tag FROM card_tags) t ON t.identity = i.id
JOIN (SELECT id AS identity, '' AS profile FROM identities UNION ALL SELECT identity, profile FROM descriptor_profiles) p
  ON p.identity = i.id
WHERE i.registered = 1 AND i.suspended = 0
  AND c.bundle IS NOT NULL AND c.kel_end = i.kel_end AND c.listed = 1 AND c.home = (SELECT home FROM relay)
  AND d.agent IS NOT NULL AND d.kel_end = i.kel_end;

-- The rows of listings in the order of a page, so that one costs what it
-- returns whatever its filters are.
CREATE TABLE directory (
  tag      TEXT    NOT NULL,
  profile  TEXT    NOT NULL,
  ace_id   TEXT    NOT NULL,
  identity INTEGER NOT NULL REFERENCES identities (id),
  PRIMARY KEY (tag, profile, ace_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX directory_identity ON directory (identity);

-- Bindings are permanent: rows are never changed or deleted.
CREATE TABLE handles (
  handle   TEXT    PRIMARY KEY,
  skeleton TEXT    NOT NULL UNIQUE,
  identity INTEGER NOT NULL UNIQUE REFERENCES identities (id),
  network  TEXT    NOT NULL, -- client network that claimed it
  bound_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX handles_claims ON handles (network, bound_at);

CREATE TABLE blocks (
  identity INTEGER NOT NULL REFERENCES identities (id),
  peer     TEXT    NOT NULL,
  blocked  INTEGER NOT NULL CHECK (blocked IN (0, 1)),
  revision INTEGER NOT NULL,
  PRIMARY KEY (identity, peer)
) STRICT, WITHOUT ROWID;

-- Not deleted on unregister: a nonce stays spent.
CREATE TABLE nonces (
  identity   INTEGER NOT NULL REFERENCES identities (id),
  nonce      TEXT    NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (identity, nonce)
) STRICT, WITHOUT ROWID;

CREATE INDEX nonces_expiry ON nonces (expires_at);

-- Handles that the operator keeps from being claimed, by skeleton.
CREATE TABLE reserved_handles (
  skeleton TEXT    PRIMARY KEY,
  handle   TEXT    NOT NULL,
  at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Bounds that the operator set for one identity in place of the relay's own.
CREATE TABLE quotas (
  identity INTEGER PRIMARY KEY REFERENCES identities (id),
  entries  INTEGER NOT NULL,
  bytes    INTEGER NOT NULL
) STRICT;

-- Wake registrations. armed_seq is the last_seq of the queue when it was armed:
-- a later entry is one to wake for.
CREATE TABLE wakes (
  identity  INTEGER PRIMARY KEY REFERENCES identities (id),
  gateway   TEXT    NOT NULL,
  token     TEXT    NOT NULL,
  armed     INTEGER NOT NULL CHECK (armed IN (0, 1)),
  armed_seq INTEGER NOT NULL,
  used_at   INTEGER NOT NULL,           -- last authenticated request that keeps it alive
  woken_at  INTEGER NOT NULL DEFAULT 0, -- when a wake was sent last
  due_at    INTEGER,                    -- when the next is to be sent, null for none
  serial    INTEGER NOT NULL DEFAULT 0  -- of the wake that is due
) STRICT;

CREATE INDEX wakes_used ON wakes (used_at);
CREATE INDEX wakes_due ON wakes (due_at) WHERE due_at IS NOT NULL;

-- What a recipient's queue holds: entries and bytes of the packets sent with a
-- permit, strangers and stranger_bytes of the others. last_seq is the second
-- half of the newest stream ID given; it never goes back.
CREATE TABLE queues (
  identity       INTEGER PRIMARY KEY REFERENCES identities (id),
  last_seq       INTEGER NOT NULL,
  entries        INTEGER NOT NULL,
  bytes          INTEGER NOT NULL,
  strangers      INTEGER NOT NULL DEFAULT 0,
  stranger_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The packets apart from what is decided with: counting, expiring and removing
-- entries reads none of their pages, and damage to these harms nothing else.
CREATE TABLE entries (
  identity   INTEGER NOT NULL REFERENCES identities (id), -- the recipient
  generation INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  stranger   INTEGER NOT NULL CHECK (stranger IN (0, 1)),
  expires_at INTEGER NOT NULL,
  network    TEXT,             -- client network of a stranger's send
  sender     BLOB    NOT NULL, -- the 32 bytes of the sender's ACE ID
  size       INTEGER NOT NULL, -- bytes of the packet
  digest     BLOB    NOT NULL, -- SHA-256 of the packet, checked when it is read
  place      INTEGER,          -- where the packet is in the packet log, or
  body       INTEGER,          -- its row in bodies
  CHECK ((place IS NULL) <> (body IS NULL)),
  PRIMARY KEY (identity, generation, seq)
) STRICT, WITHOUT ROWID;

-- A packet names its sender, so that a duplicate is found by both; one index
-- then also adds up a sender's share of a queue.
CREATE UNIQUE INDEX entries_digest ON entries (identity, sender, digest, size);
CREATE INDEX entries_expiry ON entries (stranger, expires_at);
CREATE INDEX entries_place ON entries (place, size) WHERE place IS NOT NULL;
CREATE INDEX entries_strangers ON entries (identity, network, expires_at) WHERE stranger = 1;

-- Parts of the packet log whose entries are gone, but not their bytes yet.
CREATE TABLE erasures (
  place INTEGER PRIMARY KEY,
  size  INTEGER NOT NULL
) STRICT;

-- Packets that outlived their part of the packet log, or came with a backup.
CREATE TABLE bodies (
  id     INTEGER PRIMARY KEY,
  packet BLOB NOT NULL
) STRICT;

-- Entries whose packet is no longer the one that was queued. They are served to
-- nobody and wait for the operator. The body stays where it is: its pages may
-- be damaged, so that it can be neither moved nor deleted.
CREATE TABLE quarantine (
  id         INTEGER PRIMARY KEY,
  identity   INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  at         INTEGER NOT NULL, -- when it was found, 0 when that was at its removal
  reason     TEXT    NOT NULL,
  body       INTEGER NOT NULL  -- the row in bodies, which may be missing
) STRICT;
