package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Page is what became of the entries of one page.
type Page struct {
	Through string     // stream ID to acknowledge, "" for none
	Last    Outcome    // of the last entry processed: Retry and Hold end a page early
	Code    fault.Code // why they do, "" otherwise

	Unreceipted bool // the last entry ends it for want of its receipt alone
}

// ReceivePage processes entries in stream order, stopping behind the first that
// ends in retry or hold, and says through which the longest prefix with final
// dispositions goes (06#receive-pipeline, Acknowledgement). Entries behind that
// one may have been processed with it; they come again as duplicates. The clock
// is read once for each entry, and on is called with each result. Deleted seeds are gone
// from the files when it returns, as far as [store.Store.Scrub] gets. The page is
// valid also beside an error: what it says to acknowledge may be.
func (n *Node) ReceivePage(ctx context.Context, entries []Entry, clock func() int64, on func(Result)) (Page, error) {
	s := &settling{n: n, clock: clock, receive: n.receive, on: on}
	err := s.run(ctx, entries)
	if scrubErr := n.store.Scrub(context.WithoutCancel(ctx)); err == nil {
		err = scrubErr
	}
	return s.page, err
}

// countFetch counts a fetch that ended in retry and quarantines the entry at
// the last one allowed. A hold does not count.
func (n *Node) countFetch(ctx context.Context, e Entry, r *Result, now int64) error {
	if r.Outcome == Hold {
		return nil
	}
	if r.Outcome != Retry {
		return n.forgetFetches(ctx, e.StreamID)
	}
	return n.store.Update(ctx, func(tx *store.Tx) error {
		count, err := tx.AddRetry(e.StreamID, now)
		if err != nil {
			return err
		}
		if count < wire.MaxFetchAttempts {
			return noteResult(tx, *r, now)
		}
		r.Outcome = Quarantined
		if err := noteResult(tx, *r, now); err != nil {
			return err
		}
		if err := tx.ClearRetries(e.StreamID); err != nil {
			return err
		}
		return tx.AddQuarantine(store.Quarantined{StreamID: e.StreamID, Packet: e.Packet.Canonical(), Code: string(r.Code), At: now})
	})
}

// countFetchesBehind counts this fetch also for the entries behind t whose receipt
// goes to the same peer, which cannot be reached for now: it ends in retry for
// them as well. Otherwise each would take its own MAX_FETCH_ATTEMPTS, one after
// another, and a peer with a deaf relay could keep the inbox from everybody.
func (n *Node) countFetchesBehind(ctx context.Context, t *taken, behind []*taken) error {
	return n.store.Update(ctx, func(tx *store.Tx) error {
		for _, b := range behind {
			if b.receipt == nil || b.receipt.to.id != t.receipt.to.id {
				continue
			}
			// It is given up in its turn, by countFetch.
			if _, err := tx.AddRetry(b.entry.StreamID, b.in.now); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetFetches clears the count of an entry that came to its end. Most have
// none, and looking costs no write.
func (n *Node) forgetFetches(ctx context.Context, streamID string) error {
	var retried bool
	err := n.store.View(ctx, func(tx *store.Tx) (err error) {
		retried, err = tx.Retried(streamID)
		return err
	})
	if err != nil || !retried {
		return err
	}
	return n.store.Update(ctx, func(tx *store.Tx) error { return tx.ClearRetries(streamID) })
}

// Report says how far a pull came.
type Report struct {
	Fetched int        // entries fetched
	Since   string     // stream ID of the last entry with a final disposition, or where the pull began
	Last    Outcome    // of the last entry processed: Retry and Hold ended the pull early
	Code    fault.Code // why they did, "" otherwise

	Unreceipted bool // the last entry ended it for want of its receipt alone
}

// Pulling says how to Pull.
type Pulling struct {
	Since string // stream ID to begin after
	Max   int    // most entries to fetch, 0 for all
	Clock func() int64
	On    func(Result)      // told of each result
	Page  func(entries int) // told of each page before it is processed; may be nil
}

// Pull processes the inbox to its end, or to the first entry that has to be
// fetched again, and acknowledges (07#inbox). The report is valid also beside an
// error.
func (n *Node) Pull(ctx context.Context, p Pulling) (Report, error) {
	report, max, clock := Report{Since: p.Since, Last: Delivered}, p.Max, p.Clock
	for max == 0 || report.Fetched < max {
		entries, err := n.net.Inbox(ctx, report.Since, clock())
		if err == nil && p.Page != nil {
			p.Page(len(entries))
		}
		if err != nil || len(entries) == 0 {
			return report, err
		}
		if max > 0 {
			entries = entries[:min(len(entries), max-report.Fetched)]
		}
		report.Fetched += len(entries)
		page, err := n.ReceivePage(ctx, entries, clock, p.On)
		if page.Through != "" {
			report.Since = page.Through
			if ackErr := n.net.Ack(ctx, page.Through, clock()); err == nil {
				err = ackErr
			}
		}
		report.Last, report.Code, report.Unreceipted = page.Last, page.Code, page.Unreceipted
		if err != nil || !page.Last.Final() {
			return report, err
		}
	}
	return report, nil
}
