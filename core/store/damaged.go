package store

// CountDamaged returns how many messages, messages of the Outbox without an outcome
// and held requests do not open: it tries each.
func (tx *Tx) CountDamaged() (n int64, err error) {
	count := func(damaged error) { // ErrDamaged is in its chain
		if damaged != nil {
			n++
		}
	}
	_, err = rows(tx, func(r scanner) (none struct{}, err error) {
		m, err := tx.scanMessage(r)
		count(m.Damaged)
		return none, err
	}, "SELECT "+messageColumns+" FROM message")
	if err != nil {
		return 0, err
	}
	_, err = rows(tx, func(r scanner) (none struct{}, err error) {
		e, err := tx.scanOutbox(r)
		count(e.Damaged)
		return none, err
	}, "SELECT "+outboxColumns+" FROM outbox WHERE state = 'pending'")
	if err != nil {
		return 0, err
	}
	_, err = rows(tx, func(r scanner) (none struct{}, err error) {
		q, err := tx.scanRequest(r)
		count(q.Damaged)
		return none, err
	}, "SELECT peer, sealed, received_at FROM request")
	return n, err
}
