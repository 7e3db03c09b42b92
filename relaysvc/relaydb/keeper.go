package relaydb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

const (
	// stepPages are what is moved into the file at a time: 4 MiB. More makes
	// commits wait longer for the disk, which is busy with it; less moves pages
	// that change often more often.
	stepPages = 1024
	// logPages is the length from which the write-ahead log begins anew: 32 MiB.
	// Commits wait for the disk while it does, and longer, each, while the file
	// of the log grows. A start after a crash reads the whole log.
	logPages = 8192
	// nearlyDone is what the writer may be left to move itself while decisions
	// wait.
	nearlyDone = 128
	// eraseDelay is how long the bytes of what was deleted may stay in the log.
	// Emptying it at every deletion would have each wait for the disk twice.
	eraseDelay = 4 * time.Second
	// resetAgain is the time to the next attempt when a reader was in the way: a
	// backup can be so for long, and each attempt costs the writer a moment.
	resetAgain = 50 * time.Millisecond
	// mostPatience is how many milliseconds an attempt waits for readers at most.
	// It doubles with each that fails and halves with each that does not: where
	// many read at a time there may never be a moment when none does, but one that
	// begins while the writer waits is not in the way. After an attempt that waited
	// in vain the writer is left alone for writerShare times as long, because a
	// backup is not over soon.
	mostPatience = 32
	writerShare  = 30
)

// keeper keeps the write-ahead log short. It moves pages into the file beside
// the writer, over a connection of its own, and leaves to the writer the rest:
// only the writer can begin the log anew while others write.
type keeper struct {
	conn        *conn
	state       *breakage
	requests    chan reset
	answers     chan resetResult
	due         chan struct{}   // holds a token when there is something to do
	erasing     chan chan error // who waits for the log to be empty
	closing     <-chan struct{} // of the store
	rest        time.Time       // when to try again; of the loop alone, as patience
	patience    int32           // milliseconds that the next attempt waits for readers
	step, limit int64           // of pages
	unmoved     atomic.Int64    // written since pages were moved
	pages       atomic.Int64    // written since the log began anew
	busy        sync.Mutex      // held while it is at the disk
	started     time.Time
	since       atomic.Int64 // when the first deletion that is still in the log happened, by clock; 0 for none
}

// resetMode is how the log begins anew.
type resetMode string

const (
	restartLog  resetMode = "PRAGMA wal_checkpoint(RESTART)"  // from its start, over what is there
	truncateLog resetMode = "PRAGMA wal_checkpoint(TRUNCATE)" // empty
	moveLog     resetMode = "PRAGMA wal_checkpoint(PASSIVE)"  // not at all
)

// reset is what the writer is asked for.
type reset struct {
	mode     resetMode
	patience int32 // milliseconds to wait for readers
}

type resetResult struct {
	done bool
	err  error
}

func openKeeper(path string, state *breakage, closing <-chan struct{}) (*keeper, error) {
	c, err := openConn(path, append(connPragmas, "wal_autocheckpoint(0)", "cache_size(-256)")...)
	if err != nil {
		return nil, err
	}
	return &keeper{
		conn: c, state: state, closing: closing, started: time.Now(), step: stepPages, limit: logPages,
		requests: make(chan reset), answers: make(chan resetResult),
		due: make(chan struct{}, 1), erasing: make(chan chan error),
	}, nil
}

// clock returns the nanoseconds since the keeper began, more than 0.
func (k *keeper) clock() int64 { return int64(time.Since(k.started)) + 1 }

func (k *keeper) age(since int64) time.Duration { return time.Duration(k.clock() - since) }

// wrote notes what a commit has added to the log. The writer calls it.
func (k *keeper) wrote(pages int64, erased bool) {
	total := k.pages.Add(pages)
	first := erased && k.since.CompareAndSwap(0, k.clock())
	if first || total >= k.limit || k.unmoved.Add(pages) >= k.step {
		select {
		case k.due <- struct{}{}:
		default:
		}
	}
}

// resetLog runs a checkpoint on the writer's connection, between two groups.
func (w *writer) resetLog(r reset) resetResult {
	if err := w.state.get(); err != nil {
		return resetResult{err: err}
	}
	since := w.keeper.since.Load()
	left, err := checkpoint(w.tx.conn, r.mode, r.patience)
	if err != nil {
		w.fail(err)
		return resetResult{err: err}
	}
	if left == 0 {
		w.keeper.pages.Store(0)
		if r.mode == truncateLog {
			w.keeper.since.CompareAndSwap(since, 0)
		}
	}
	return resetResult{done: left == 0}
}

// checkpoint returns how many pages are left to move, at least 1 when somebody
// was in the way for longer than patience, in milliseconds. It fails when the
// disk does; a full one only leaves more.
func checkpoint(c *conn, mode resetMode, patience int32) (left int64, err error) {
	s, err := c.Prepare(string(mode))
	if err != nil {
		return 0, err
	}
	c.BusyTimeout(patience)
	defer c.BusyTimeout(busyMilliseconds)
	failpoint.Here(failpoint.Checkpoint)
	ok, err := s.Step()
	failpoint.Here(failpoint.Moved)
	if code := resultCode(err); code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED {
		return 1, nil
	}
	if err != nil || !ok {
		return 0, err
	}
	defer s.Reset()
	busy, log, moved := s.Int(0), s.Int(1), s.Int(2)
	return max(busy, log-moved), nil
}

// loop works until the store closes.
func (k *keeper) loop() {
	defer k.conn.Close()
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	var waiting []chan error
	for {
		select {
		case <-k.due:
		case <-timer.C:
		case w := <-k.erasing:
			waiting = append(waiting, w)
		case <-k.closing:
			for _, w := range waiting {
				w <- errClosed
			}
			return
		}
		waiting = k.work(waiting)
		if wait := k.next(len(waiting) > 0); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// work does what is due and returns who still waits.
func (k *keeper) work(waiting []chan error) []chan error {
	if time.Now().Before(k.rest) {
		return waiting
	}
	since := k.since.Load()
	erase := len(waiting) > 0 || since > 0 && k.age(since) >= eraseDelay
	var err error
	done := true
	switch {
	case erase:
		done, err = k.reset(truncateLog)
	case k.pages.Load() >= k.limit:
		done, err = k.reset(restartLog)
	case k.unmoved.Load() >= k.step:
		_, err = k.move()
	}
	if !done && err == nil {
		k.rest = time.Now().Add(resetAgain + writerShare*time.Duration(k.patience)*time.Millisecond)
		k.patience = min(max(1, 2*k.patience), mostPatience)
		return waiting
	}
	k.patience /= 2
	for _, w := range waiting {
		w <- err
	}
	return nil
}

// next returns the time until there is something to do, 0 for never.
func (k *keeper) next(waiting bool) time.Duration {
	since := k.since.Load()
	wait := time.Duration(0)
	switch {
	case k.state.get() != nil:
		return 0
	case waiting || k.pages.Load() >= k.limit:
		wait = time.Millisecond
	case since > 0:
		wait = max(time.Millisecond, eraseDelay-k.age(since))
	default:
		return 0
	}
	return max(wait, time.Until(k.rest))
}

// reset moves the log into the file and begins it anew, and reports whether it
// could.
func (k *keeper) reset(mode resetMode) (done bool, err error) {
	if err := k.state.get(); err != nil {
		return false, err
	}
	for range 3 {
		left, err := k.move()
		if err != nil {
			return false, err
		}
		if left <= nearlyDone {
			break
		}
	}
	select {
	case k.requests <- reset{mode, k.patience}:
		r := <-k.answers
		return r.done, r.err
	case <-k.closing:
		return false, errClosed
	}
}

// move moves what it can, and returns how many pages are left.
func (k *keeper) move() (left int64, err error) {
	k.busy.Lock()
	defer k.busy.Unlock()
	if err := k.state.get(); err != nil {
		return 0, err
	}
	k.unmoved.Store(0)
	if left, err = checkpoint(k.conn, moveLog, 0); err != nil {
		k.state.set(err)
		k.state.tell()
	}
	return left, err
}

// settle waits until the keeper is not at the disk.
func (k *keeper) settle() {
	k.busy.Lock()
	defer k.busy.Unlock()
}

// erase returns when nothing that was deleted before is left in the log. Where
// a reader is in the way for long, it leaves that to the keeper.
func (k *keeper) erase(ctx context.Context) error {
	k.since.CompareAndSwap(0, k.clock())
	return askToErase(ctx, k.erasing, k.closing)
}

// erasePatience bounds how long somebody waits for a reader, such as a backup,
// that keeps what was deleted from being erased.
const erasePatience = 5 * time.Second

// askToErase asks a loop that erases, and waits for its answer or for as long as
// there is patience: what is left then, the loop erases later.
func askToErase(ctx context.Context, asked chan<- chan error, closing <-chan struct{}) error {
	done := make(chan error, 1)
	patience := time.NewTimer(erasePatience)
	defer patience.Stop()
	select {
	case asked <- done:
	case <-patience.C:
		return nil
	case <-closing:
		return errClosed
	case <-ctx.Done():
		return storage(ctx.Err())
	}
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return nil
	case <-ctx.Done():
		return storage(ctx.Err())
	}
}
