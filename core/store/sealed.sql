-- What people wrote is sealed under the vault key (see seal.go): message bodies,
-- the contents of the Outbox and held contact requests. Who, when, what type and
-- what state stay readable. The program seals the rows that are there; the new
-- name of the column keeps a program of before, which may still have the store
-- open, from writing one in the clear.
ALTER TABLE message RENAME COLUMN body TO sealed;
ALTER TABLE outbox RENAME COLUMN content TO sealed;
ALTER TABLE request RENAME COLUMN body TO sealed;
