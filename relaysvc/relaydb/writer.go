package relaydb

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

//go:embed schema.sql
var schema string

// version is the schema's, kept in user_version.
const version = 3

// groupLimit and groupBytes bound the decisions that one commit makes durable
// and the packets among them.
const (
	groupLimit = 128
	groupBytes = 4 << 20
)

// errClosed is what a decision gets that comes after Close.
var errClosed = fault.New(fault.StorageFailed, "the store is closed")

// job is a decision that waits for the writer: run, or a packet to queue. It
// may be taken a second time when the transaction that it was part of was
// undone.
type job struct {
	run    func(*tx) error // nil for a packet
	packet Packet
	room   Room
	queued bool // the packet was
	err    error
	done   chan struct{} // holds one token when the job is done
}

func (j *job) take(t *tx) error {
	if j.run == nil {
		var err error
		j.queued, err = t.enqueue(&j.packet, &j.room)
		return err
	}
	// A decision in SQL sees what packets have changed before it.
	if err := t.writeTotals(); err != nil {
		return err
	}
	return j.run(t)
}

func (j *job) finish(err error) {
	j.err = err
	j.done <- struct{}{}
}

// line is where jobs wait for the writer, in order.
type line struct {
	spare sync.Pool // of *job

	mu     sync.Mutex
	jobs   []*job        // guarded by mu, as what follows
	closed bool          // nobody waits any more
	filled chan struct{} // holds a token when there may be jobs
}

func newLine() *line { return &line{filled: make(chan struct{}, 1)} }

// job returns a job to join with.
func (l *line) job() *job {
	if j, ok := l.spare.Get().(*job); ok {
		return j
	}
	return &job{done: make(chan struct{}, 1)}
}

// keep takes a job back that is done, without what it holds on to.
func (l *line) keep(j *job) {
	*j = job{done: j.done}
	l.spare.Put(j)
}

// join waits until the job is done and returns its error.
func (l *line) join(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.LockBusy, ctx.Err())
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	l.jobs = append(l.jobs, j)
	l.mu.Unlock()
	l.signal()
	<-j.done
	return j.err
}

func (l *line) signal() {
	select {
	case l.filled <- struct{}{}:
	default:
	}
}

// gather appends the next jobs to group, as many as one commit may have.
func (l *line) gather(group []*job) []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.jobs) && n < groupLimit && size < groupBytes {
		size += len(l.jobs[n].packet.Raw)
		n++
	}
	group = append(group, l.jobs[:n]...)
	left := copy(l.jobs, l.jobs[n:])
	clear(l.jobs[left:])
	l.jobs = l.jobs[:left]
	if left > 0 {
		l.signal()
	}
	return group
}

// close lets nobody join any more and answers those who wait.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, j := range l.jobs {
		j.finish(errClosed)
	}
	l.jobs = nil
}

// write runs fn in a transaction and returns once that is durable. A Refusal
// keeps what fn did before it; any other error undoes it.
//
// A context that has ended keeps a decision from being taken; once it waits its
// outcome is always told.
func (d *DB) write(ctx context.Context, fn func(*tx) error) error {
	j := d.line.job()
	j.run = fn
	err := d.line.join(ctx, j)
	d.line.keep(j)
	return err
}

// Check reports whether the store still takes decisions, by one that changes
// nothing and has to reach the disk. A store that broke takes none until it is
// opened anew; one whose disk is full is in order.
func (d *DB) Check(ctx context.Context) error {
	err := d.write(ctx, (*tx).touch)
	if errors.Is(err, DiskFull) {
		return nil
	}
	return err
}

// writer owns the one connection that writes.
type writer struct {
	tx      *tx
	state   *breakage
	keeper  *keeper
	syncer  *syncer
	eraser  *eraser
	lazy    bool // a commit need not reach the disk
	observe func(Commit)
	report  func(reason string) // of a damaged packet
	group   []*job
	results []error
	began   time.Time // of the transaction in progress
}

// Commit describes one commit for an observer.
type Commit struct {
	Decisions int           // that it made durable
	Took      time.Duration // from the request to commit to the disk's answer
	Whole     time.Duration // from the beginning of the transaction to that
}

// breakage remembers the failure after which nothing is written any more. What
// the files hold is then unknown, and asking the disk again can answer "done"
// for pages that were lost.
type breakage struct {
	first  atomic.Pointer[error]
	once   sync.Once
	broken chan struct{} // closed when the failure is known to all
}

func newBreakage() *breakage { return &breakage{broken: make(chan struct{})} }

// set keeps the first failure. Nothing new is begun from here on.
func (b *breakage) set(err error) { b.first.CompareAndSwap(nil, &err) }

// tell makes the failure known.
func (b *breakage) tell() { b.once.Do(func() { close(b.broken) }) }

func (b *breakage) get() error {
	if err := b.first.Load(); err != nil {
		return *err
	}
	return nil
}

// Broken is closed when a commit or a checkpoint has failed to reach the disk.
// No decision is taken from then on; only opening the store anew tells what it
// holds.
func (d *DB) Broken() <-chan struct{} { return d.state.broken }

// Err returns why the store is broken, nil while it is not. Code:
// storage_failed.
func (d *DB) Err() error { return d.state.get() }

func openWriter(path string, o Options) (*writer, error) {
	c, err := openConn(path, append(connPragmas, "wal_autocheckpoint(0)", writerCache)...)
	if err != nil {
		return nil, err
	}
	w := &writer{tx: &tx{conn: c}, state: newBreakage(), observe: o.Observe, report: func(string) {}}
	if w.observe == nil {
		w.observe = func(Commit) {}
	}
	if err := w.migrate(o.Generation); err != nil {
		c.Close()
		return nil, err
	}
	if err := w.openLog(filepath.Dir(path), o); err != nil {
		c.Close()
		return nil, err
	}
	if err := w.tx.prepare(); err != nil {
		c.Close()
		return nil, errors.Join(err, w.tx.log.Close())
	}
	return w, nil
}

// openLog opens the packet log that belongs to the database. One that is gone
// takes packets with it that were acknowledged: this refuses to begin another.
func (w *writer) openLog(dir string, o Options) error {
	var name []byte
	var synced int64
	var needed bool
	if _, err := w.tx.row("SELECT log_id, synced, EXISTS (SELECT 1 FROM entries WHERE place IS NOT NULL) FROM relay",
		nil, &name, &synced, &needed); err != nil {
		return err
	}
	var err error
	if w.tx.log, err = packetlog.Open(dir, packetlog.ID(name), packetlog.Options{Before: o.Before, SegmentSize: failpoint.Segment(o.segmentSize)}); err != nil {
		return err
	}
	if needed && len(w.tx.log.Segments()) == 0 {
		return fault.New(fault.StorageFailed, "the packet log is not there: the files %s belong beside the database", packetlog.Pattern(packetlog.ID(name)))
	}
	return nil
}

// migrate makes the tables of a new store. It refuses a store of a later
// version and a database that is no relay's, and leaves both as they are.
func (w *writer) migrate(generation int64) error {
	var have, tables int
	var relay bool
	if _, err := w.tx.row(`
SELECT user_version, (SELECT count(*) FROM sqlite_schema),
  EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'relay') FROM pragma_user_version`,
		nil, &have, &tables, &relay); err != nil {
		return err
	}
	switch {
	case relay && have > version:
		return fault.New(fault.StorageFailed, "the store has schema version %d, this program knows %d", have, version)
	case tables > 0 && !(relay && have == version):
		return fault.New(fault.StorageFailed, "not the store of a relay")
	}
	create := ""
	if tables == 0 {
		create = "BEGIN IMMEDIATE;\n" + schema + fmt.Sprintf("\nUPDATE relay SET generation = %d;", max(generation, 1)) + "\nPRAGMA user_version = 3;\nCOMMIT"
	}
	return w.tx.conn.Script("PRAGMA journal_mode = WAL;\n" + create)
}

// close ends the connection. After a failure the log is left as it is.
func (w *writer) close() {
	if w.state.get() != nil || w.noteEnd() != nil {
		w.tx.conn.KeepLog()
	}
	w.tx.conn.Close()
	_ = w.tx.log.Close()
}

// noteEnd leaves the next start nothing to replay.
func (w *writer) noteEnd() error {
	_, err := w.tx.exec("UPDATE relay SET synced = ? WHERE synced <> ?", w.tx.log.Synced(), w.tx.log.Synced())
	return err
}

// loop takes decisions until closing is closed. Those that wait while one
// group is being committed form the next: nothing is delayed to gather more.
func (w *writer) loop(l *line, closing <-chan struct{}) {
	defer close(w.syncer.groups)
	defer l.close()
	for {
		select {
		case <-l.filled:
			w.group = l.gather(w.group[:0])
			w.commit(w.group)
			clear(w.group)
		case k := <-w.keeper.requests:
			w.keeper.answers <- w.resetLog(k)
		case r := <-w.eraser.last:
			r.done <- w.emptyLast(r.segment)
		case <-closing:
			return
		}
	}
}

// commit makes a group durable in one transaction. When one of its decisions
// fails, the whole is undone and each is taken on its own, so that no failure
// reaches another.
func (w *writer) commit(group []*job) {
	if len(group) == 0 {
		return
	}
	err := w.transact(group)
	for len(group) == 1 && w.met(err) {
		err = w.transact(group)
	}
	if err != nil && len(group) > 1 && w.state.get() == nil {
		for i := range group {
			w.commit(group[i : i+1])
		}
		return
	}
	if err == nil {
		w.answer(group)
		return
	}
	for _, j := range group {
		j.finish(err)
	}
}

// answer answers decisions, which have reached the disk, and leaves packets to
// the syncer: also one that was queued before, perhaps in a group that has not
// reached it.
func (w *writer) answer(jobs []*job) {
	g := w.syncer.group()
	for i, j := range jobs {
		if j.run == nil {
			g.jobs, g.results = append(g.jobs, j), append(g.results, w.results[i])
			continue
		}
		j.finish(w.results[i])
		failpoint.Here(failpoint.Answered)
	}
	if len(g.jobs) > 0 {
		g.through, g.began = w.tx.log.End(), w.began
		w.syncer.take(g)
	}
}

// met notes a damaged body that stopped a decision, and reports whether it is
// to be taken again.
func (w *writer) met(err error) bool {
	var d *damagedBody
	if !errors.As(err, &d) || w.tx.damaged[d.id] {
		return false
	}
	w.tx.damaged[d.id] = true
	w.report(damagedPages)
	return true
}

// transact runs a group in one transaction and leaves their refusals in
// results.
func (w *writer) transact(group []*job) error {
	if err := w.state.get(); err != nil {
		return err
	}
	w.began = time.Now()
	failpoint.Here(failpoint.Begin)
	decisions := count(group)
	if err := w.syncing(decisions > 0); err != nil {
		return err
	}
	if err := w.tx.begin.Run(); err != nil {
		return err
	}
	w.tx.log.Begin(&w.tx.batch)
	w.tx.alone = decisions == 0
	w.results = w.results[:0]
	for _, j := range group {
		failpoint.Here(failpoint.Decide)
		err := j.take(w.tx)
		if failed(err) {
			return w.undo(err)
		}
		w.results = append(w.results, err)
	}
	if err := w.tx.writeTotals(); err != nil {
		return w.undo(err)
	}
	if err := w.tx.writeSynced(); err != nil {
		return w.undo(err)
	}
	return w.end(decisions)
}

// count returns how many of the jobs are more than a packet.
func count(jobs []*job) (decisions int) {
	for _, j := range jobs {
		if j.run != nil {
			decisions++
		}
	}
	return decisions
}

// syncing sets whether a commit has to reach the disk. That of packets alone
// does not: they are made durable by the packet log, from which a database that
// has lost them gets them again.
func (w *writer) syncing(wanted bool) error {
	if w.lazy == !wanted {
		return nil
	}
	level := "NORMAL"
	if wanted {
		level = "FULL"
	}
	err := w.tx.conn.Script("PRAGMA synchronous = " + level)
	if err == nil {
		w.lazy = !wanted
	}
	return err
}

// end writes the packets into their log and commits.
func (w *writer) end(decisions int) error {
	failpoint.Here(failpoint.Decided)
	packets := w.tx.batch.Len() > 0
	if packets {
		if err := w.tx.log.Write(&w.tx.batch); err != nil {
			return w.undo(w.withdraw(err))
		}
		failpoint.Here(failpoint.Written)
	}
	start := time.Now()
	if err := w.tx.commit.Run(); err != nil {
		if packets {
			err = w.withdraw(err)
		}
		if resultCode(err) == sqlite3.SQLITE_IOERR {
			w.fail(err)
		}
		return w.undo(err)
	}
	if packets {
		w.tx.log.Accept(&w.tx.batch)
	}
	failpoint.Here(failpoint.Committed)
	if decisions > 0 {
		w.observe(Commit{Decisions: decisions, Took: time.Since(start), Whole: time.Since(w.began)})
	}
	w.tx.committed()
	if w.tx.erasing {
		w.eraser.note()
		w.tx.erasing = false
	}
	w.keeper.wrote(w.tx.conn.PagesWritten(), w.tx.erased)
	w.tx.erased = false
	// The keeper may have failed meanwhile: what it was moving is in doubt.
	return w.state.get()
}

// withdraw takes packets out of their log again after err, and returns that.
func (w *writer) withdraw(err error) error {
	if errors.Is(err, packetlog.ErrSync) {
		w.fail(err)
		return err
	}
	if failed := w.tx.log.Withdraw(&w.tx.batch); failed != nil {
		w.fail(failed)
	}
	if errors.Is(err, packetlog.ErrFull) {
		return fault.Wrap(fault.StorageFailed, errors.Join(DiskFull, err))
	}
	return err
}

// undo rolls back after err and returns it.
func (w *writer) undo(err error) error {
	w.tx.forget()
	w.tx.erasing, w.tx.synced = false, -1
	if rollback := w.tx.rollback.Run(); rollback != nil && resultCode(rollback) != sqlite3.SQLITE_ERROR {
		// SQLITE_ERROR: SQLite has rolled back by itself.
		w.fail(rollback)
	}
	return err
}

// fail breaks the store. It returns when the keeper leaves the disk alone too.
func (w *writer) fail(err error) {
	w.state.set(err)
	w.keeper.settle()
	w.state.tell()
}

// failed reports whether err is a failure of the store, not a refusal.
func failed(err error) bool {
	return errors.Is(err, fault.StorageFailed) || errors.Is(err, fault.LockBusy)
}
