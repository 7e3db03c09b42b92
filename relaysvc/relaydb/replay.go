package relaydb

import "github.com/ace-toolkit/ace/relaysvc/packetlog"

// replay brings the database and the packet log together when the store is
// opened. A packet of the log that the database has lost gets its entry again;
// an entry whose packet the log has lost goes. Nobody was answered for either
// kind of loss alone: an answer means that the log had reached the disk.
func (t *tx) replay() (err error) {
	var synced int64
	if _, err := t.row("SELECT synced FROM relay", nil, &synced); err != nil {
		return err
	}
	if err := t.begin.Run(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = t.rollback.Run()
		}
	}()
	dropped, err := t.log.Recover(synced, t.replayOne)
	if err != nil {
		return err
	}
	if err := t.dropBeyond(t.log.Synced()); err != nil {
		return err
	}
	if t.log.Synced() != synced || dropped > 0 {
		if _, err := t.exec("UPDATE relay SET synced = ?", t.log.Synced()); err != nil {
			return err
		}
	}
	if err := t.commit.Run(); err != nil {
		return err
	}
	t.forget()
	return nil
}

const (
	selectTwin = "identity = ? AND sender = ? AND digest = ? AND size = ?"
	replayed   = `
INSERT INTO entries (identity, generation, seq, stranger, expires_at, network, sender, size, digest, place)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	countReplayed = `
UPDATE queues SET last_seq = ?, entries = entries + ?, bytes = bytes + ?, strangers = strangers + ?, stranger_bytes = stranger_bytes + ?
WHERE identity = ?`
	chargeReplayed = `
INSERT INTO networks (network, queued) SELECT network, ? FROM identities WHERE id = ?
ON CONFLICT DO UPDATE SET queued = queued + excluded.queued`
)

// replayOne queues a packet of the log unless it was queued before: a queue
// never gives a number twice. One that was decided together with something else
// is never missing when it was answered, because then the commit had reached
// the disk; without the rest it must not be queued, such as a registration that
// it came right after.
func (t *tx) replayOne(r packetlog.Record) error {
	s, err := parseSaid(r.Said)
	if err != nil {
		return err
	}
	var last int64
	ok, err := t.row("SELECT last_seq FROM queues WHERE identity = ?", []any{s.identity}, &last)
	if err != nil || ok && s.seq <= last {
		return err
	}
	if !ok || !s.alone {
		_, err := t.exec("INSERT OR IGNORE INTO erasures (place, size) VALUES (?, ?)", r.Place, r.Size+saidSize)
		return err
	}
	// Its twin had expired when it came.
	if err := t.remove(selectTwin, s.identity, s.sender, s.digest[:], r.Size); err != nil {
		return err
	}
	var network any
	if s.stranger {
		network = string(s.network)
	}
	if _, err := t.exec(replayed, s.identity, s.generation, s.seq, s.stranger, s.expires, network, s.sender, r.Size, s.digest[:], r.Place); err != nil {
		return err
	}
	stranger := int64(boolean(s.stranger))
	if _, err := t.exec(countReplayed, s.seq, 1-stranger, (1-stranger)*r.Size, stranger, stranger*r.Size, s.identity); err != nil {
		return err
	}
	_, err = t.exec(chargeReplayed, r.Size, s.identity)
	return err
}

// dropBeyond removes the entries whose packets would be beyond the log's end.
func (t *tx) dropBeyond(end int64) error {
	if err := t.remove("place >= ?", end); err != nil {
		return err
	}
	_, err := t.exec("DELETE FROM erasures WHERE place >= ?", end)
	return err
}
