package store

// Block is the last block decision about a peer (05#blocks).
type Block struct {
	Peer     string
	Blocked  bool
	Revision int64
	// Posted is the relay that the decision was last handed to, Settled the one
	// that has answered for good, each "" before. Superseded says that this one
	// holds a later decision.
	Posted, Settled string
	Superseded      bool
}

const (
	blockColumns = "peer, blocked, revision, posted, settled, superseded"

	// Two ranges of the index: a comparison with <> would read all of it.
	selectUnsettled = "SELECT " + blockColumns + " FROM block WHERE settled < ? UNION ALL SELECT " + blockColumns +
		" FROM block WHERE settled > ? ORDER BY revision, peer"
)

func (b *Block) fields() []any {
	return []any{&b.Peer, &b.Blocked, &b.Revision, &b.Posted, &b.Settled, &b.Superseded}
}

// Block returns the last decision about a peer and whether there is one.
func (tx *Tx) Block(peer string) (Block, bool, error) {
	var b Block
	ok, err := tx.get("SELECT "+blockColumns+" FROM block WHERE peer = ?", []any{peer}, b.fields()...)
	return b, ok, err
}

// SetBlock records a decision, in place of the earlier one about the peer.
func (tx *Tx) SetBlock(b Block) error {
	return tx.run("INSERT OR REPLACE INTO block ("+blockColumns+") VALUES (?, ?, ?, ?, ?, ?)",
		b.Peer, b.Blocked, b.Revision, b.Posted, b.Settled, b.Superseded)
}

// UnsettledBlocks returns the decisions that a relay has not answered for good,
// the oldest first.
func (tx *Tx) UnsettledBlocks(relay string) ([]Block, error) {
	return rows(tx, func(r scanner) (b Block, err error) { return b, r.Scan(b.fields()...) }, selectUnsettled, relay, relay)
}

// ForgetSettledBlocks makes the decisions that a relay has answered due again:
// it has lost what it held.
func (tx *Tx) ForgetSettledBlocks(relay string) error {
	return tx.run("UPDATE block SET posted = '', settled = '', superseded = 0 WHERE settled = ?", relay)
}
