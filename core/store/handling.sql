-- Schema 6: what came of handing messages to a handler, for those that are not
-- marked as handled. A message without a row has not been tried.
CREATE TABLE handling (
  message_id      TEXT NOT NULL,
  peer            TEXT NOT NULL,
  attempts        INTEGER NOT NULL,
  failures        INTEGER NOT NULL,
  started_at      INTEGER NOT NULL,
  running         INTEGER NOT NULL,
  last_exit       INTEGER NOT NULL,
  last_error      TEXT NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  given_up        INTEGER NOT NULL,
  PRIMARY KEY (message_id, peer)
) STRICT, WITHOUT ROWID;

-- The mark ends the attempts, and taking it away begins them anew.
CREATE TRIGGER handling_over AFTER UPDATE OF handled ON message WHEN NEW.handled <> OLD.handled BEGIN
  DELETE FROM handling WHERE message_id = NEW.message_id AND peer = NEW.peer;
END;

-- 'unhandled_again' counts what puts an earlier message before the handlers once
-- more, so that they need not look through all of them.
INSERT INTO counter VALUES ('unhandled_again', 0);
CREATE TRIGGER message_unhandled_again AFTER UPDATE OF handled ON message WHEN NEW.handled = 0 AND OLD.handled <> 0 BEGIN
  UPDATE counter SET value = value + 1 WHERE name = 'unhandled_again';
END;
CREATE TRIGGER handling_again AFTER DELETE ON handling WHEN OLD.given_up <> 0 BEGIN
  UPDATE counter SET value = value + 1 WHERE name = 'unhandled_again';
END;
