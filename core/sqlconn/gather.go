package sqlconn

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxGathered bounds the bytes of a commit that are held back at a time.
const maxGathered = 128 << 10

// logFile stands between SQLite and the write-ahead log of a connection while it
// commits. SQLite hands a commit to the system in two writes a page, each behind
// the one before; the log file holds them back and makes them one. What it holds
// is on its way again before SQLite reads from the file or syncs it, and a sync
// ends each commit before other connections learn of it.
type logFile struct {
	file      uintptr // of SQLite, 0 before it is known
	system    *sqlite3.Tsqlite3_io_methods
	methods   uintptr // ours: those of the system with the three below in their places
	gathering bool
	held      []byte
	offset    int64 // of what is held

	// SQLite knows the functions by addresses that Go cannot see in its memory.
	write, read transferFn
	sync        syncFn
}

// The functions of a file as SQLite calls them, and as they are called.
type (
	transferFn func(tls *libc.TLS, f, data uintptr, n int32, offset int64) int32
	syncFn     func(tls *libc.TLS, f uintptr, flags int32) int32
)

// GatherCommits makes [Conn.Commit] hand a commit to the system in one write,
// where the pragmas journal_mode(WAL) and synchronous(FULL) hold. Without them it
// changes nothing: SQLite would tell of a commit before the file has it.
func (c *Conn) GatherCommits() error {
	var mode, level string
	for pragma, into := range map[string]*string{"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &level} {
		s, err := c.Prepare(pragma)
		if err == nil {
			_, err = s.Step()
		}
		if err != nil {
			return err
		}
		err = s.Scan(into)
		s.Reset()
		if err != nil {
			return err
		}
	}
	if mode == "wal" && level == "2" {
		c.log = &logFile{}
	}
	return nil
}

// Commit ends the transaction.
func (c *Conn) Commit() error {
	if c.log == nil {
		return c.Command("COMMIT")
	}
	if err := c.log.begin(c); err != nil {
		return err
	}
	defer c.log.end()
	return c.Command("COMMIT")
}

// begin starts to hold back what SQLite writes.
func (l *logFile) begin(c *Conn) error {
	if err := c.check(sqlite3.Xsqlite3_file_control(c.tls, c.db, 0, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER, c.scratch)); err != nil {
		return err
	}
	f := *(*uintptr)(at(c.scratch))
	if o := (*sqlite3.Tsqlite3_file)(at(f)); f != l.file || o.FpMethods != l.methods {
		if err := l.stand(c, f); err != nil {
			return err
		}
	}
	l.gathering = true
	return nil
}

// end stops it. All was written when the commit was made; what is left is of one
// that has failed, which nobody looks at.
func (l *logFile) end() { l.gathering, l.held = false, l.held[:0] }

// stand puts our methods in the place of the system's.
func (l *logFile) stand(c *Conn, f uintptr) error {
	o := (*sqlite3.Tsqlite3_file)(at(f))
	if l.methods == 0 {
		size := libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))
		if l.methods = libc.Xmalloc(c.tls, size); l.methods == 0 {
			return c.wrap(errNoMemory)
		}
	}
	l.file, l.system = f, (*sqlite3.Tsqlite3_io_methods)(at(o.FpMethods))
	ours := (*sqlite3.Tsqlite3_io_methods)(at(l.methods))
	*ours = *l.system
	l.write, l.read, l.sync = l.writeOne, l.readOne, l.syncAll
	ours.FxWrite, ours.FxRead, ours.FxSync = address(l.write), address(l.read), address(l.sync)
	o.FpMethods = l.methods
	return nil
}

// address is how SQLite knows a function, and function the way back.
func address[F any](fn F) uintptr           { return *(*uintptr)(unsafe.Pointer(&fn)) }
func function[F any](address uintptr) (f F) { return *(*F)(unsafe.Pointer(&address)) }

func (l *logFile) writeOne(tls *libc.TLS, f, data uintptr, n int32, offset int64) int32 {
	if !l.gathering {
		return function[transferFn](l.system.FxWrite)(tls, f, data, n, offset)
	}
	if len(l.held) > 0 && (offset != l.offset+int64(len(l.held)) || len(l.held)+int(n) > maxGathered) {
		if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if len(l.held) == 0 {
		l.offset = offset
	}
	l.held = append(l.held, unsafe.Slice((*byte)(at(data)), n)...)
	return sqlite3.SQLITE_OK
}

// flush writes what is held.
func (l *logFile) flush(tls *libc.TLS) int32 {
	if len(l.held) == 0 {
		return sqlite3.SQLITE_OK
	}
	held := l.held
	l.held = held[:0]
	return function[transferFn](l.system.FxWrite)(tls, l.file, uintptr(unsafe.Pointer(&held[0])), int32(len(held)), l.offset)
}

func (l *logFile) readOne(tls *libc.TLS, f, data uintptr, n int32, offset int64) int32 {
	if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[transferFn](l.system.FxRead)(tls, f, data, n, offset)
}

func (l *logFile) syncAll(tls *libc.TLS, f uintptr, flags int32) int32 {
	if rc := l.flush(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[syncFn](l.system.FxSync)(tls, f, flags)
}
