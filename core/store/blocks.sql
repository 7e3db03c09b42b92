-- Block decisions (05#blocks), each to be registered at the identity's relay.
-- posted is the relay that the decision was last handed to, settled the one that
-- has answered for good, each '' before; superseded says that it answered to hold
-- a later one. A row stays for its revision when the peer is blocked no longer.
CREATE TABLE block (
  peer       TEXT PRIMARY KEY,
  blocked    INTEGER NOT NULL,
  revision   INTEGER NOT NULL,
  posted     TEXT NOT NULL,
  settled    TEXT NOT NULL,
  superseded INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX block_settled ON block (settled);

-- The delegation that signed the newest permit issued to a peer, '' for none
-- known. In the row of the contact it finds those that are due a permit after a
-- new one (05#delivery-permits), without looking at the others.
ALTER TABLE permit ADD COLUMN delegation TEXT NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN permit_under TEXT NOT NULL DEFAULT '';
CREATE INDEX contact_permit ON contact (permit_under) WHERE state = 'admitted';

-- What upkeep ends and removes.
CREATE INDEX outbox_started ON outbox (first_attempt_at) WHERE state = 'pending' AND attempts > 0;
CREATE INDEX contact_expiry ON contact (expires_at) WHERE expires_at <> 0;
CREATE INDEX outbox_settled ON outbox (settled_at) WHERE state <> 'pending';
