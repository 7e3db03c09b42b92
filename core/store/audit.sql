-- Schema 7: what an endpoint decided, and what it knows of each attempt.

-- The audit log, as before with the events of package audit and what they tell:
-- '' and 0 where a member does not apply.
CREATE TABLE audit_6 (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  event      TEXT NOT NULL,
  code       TEXT NOT NULL,
  peer       TEXT NOT NULL,
  message_id TEXT NOT NULL,
  relay      TEXT NOT NULL,
  kel_seq    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  count      INTEGER NOT NULL
) STRICT;
INSERT INTO audit_6 SELECT seq, at, 'message.' || outcome, code, peer, message_id, '', 0, 0, 0 FROM audit ORDER BY seq;
DROP TABLE audit;
ALTER TABLE audit_6 RENAME TO audit;

-- The first and the last attempts of each message of the Outbox: what the relay
-- named answered, with its HTTP status and the code it stated, 0 and '' for none.
CREATE TABLE attempt (
  message_id        TEXT NOT NULL REFERENCES outbox (message_id) ON DELETE CASCADE,
  number            INTEGER NOT NULL,
  at                INTEGER NOT NULL,
  relay             TEXT NOT NULL,
  status            INTEGER NOT NULL,
  code              TEXT NOT NULL,
  remote_code       TEXT NOT NULL,
  prekey            TEXT NOT NULL,
  prekey_is_peer    INTEGER NOT NULL,
  permit_expires_at INTEGER NOT NULL,
  next_attempt_at   INTEGER NOT NULL,
  PRIMARY KEY (message_id, number)
) STRICT, WITHOUT ROWID;
