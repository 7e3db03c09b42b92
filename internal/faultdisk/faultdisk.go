// Package faultdisk stands between SQLite and the files below a folder, so
// that a test decides what becomes of a write, a sync, a truncation or a
// deletion: whether it happens, fails, or is lost with the power.
//
// [Watch] puts a hook before these four operations on the database files and
// their journals. All else, and every file outside the watched folders, goes to
// the operating system untouched. The program that is shipped has no call of
// this package.
package faultdisk

import (
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Kind is what SQLite asks of a file.
type Kind string

// The operations that a hook sees.
const (
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Delete   Kind = "delete"
)

// Op is one operation that is about to be done.
type Op struct {
	Kind Kind
	Path string // absolute
	// Data is what Write puts at Offset. It is SQLite's memory: a hook that
	// keeps it copies it.
	Data   []byte
	Offset int64
	Size   int64 // of the file after Truncate
}

// Hook is asked before an operation. It answers a result code of SQLite: 0 lets
// the operation happen, any other is what SQLite is told instead. It is called
// from several goroutines.
type Hook func(Op) int32

// OK lets an operation happen.
const OK int32 = sqlite3.SQLITE_OK

// The failures of a disk, as SQLite's result codes.
const (
	FsyncFailed int32 = sqlite3.SQLITE_IOERR_FSYNC
	WriteFailed int32 = sqlite3.SQLITE_IOERR_WRITE
	Full        int32 = sqlite3.SQLITE_FULL
	ReadOnly    int32 = sqlite3.SQLITE_READONLY
)

// Watch puts hook before what SQLite does to the files below dir, an absolute
// path, that are opened from now on. Stop it when they are closed.
func Watch(dir string, hook Hook) (stop func()) {
	install()
	dir = strings.TrimSuffix(dir, "/") + "/"
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.hooks[dir] = hook
	return func() {
		disks.mu.Lock()
		defer disks.mu.Unlock()
		delete(disks.hooks, dir)
	}
}

// Ask returns what the hook of a file answers, for files that SQLite knows
// nothing of.
func Ask(op Op) int32 {
	if hook := hookOf(op.Path); hook != nil {
		return hook(op)
	}
	return OK
}

// disks is process-wide because SQLite's register of file systems is.
var disks = struct {
	mu      sync.Mutex
	hooks   map[string]Hook     // by folder, with a slash at the end
	files   map[uintptr]*file   // open ones, by sqlite3_file
	methods map[uintptr]uintptr // ours, by those they wrap
}{
	hooks:   map[string]Hook{},
	files:   map[uintptr]*file{},
	methods: map[uintptr]uintptr{},
}

// file is an open file of a watched folder.
type file struct {
	path    string
	hook    Hook
	methods *sqlite3.Tsqlite3_io_methods // of the operating system
}

// system is the file system that SQLite came with. Ours is a copy of it with
// two entries replaced.
var system *sqlite3.Tsqlite3_vfs

// The signatures that SQLite calls and that we call.
type (
	openFn     = func(tls *libc.TLS, vfs, name, f uintptr, flags int32, outFlags uintptr) int32
	deleteFn   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	closeFn    = func(tls *libc.TLS, f uintptr) int32
	writeFn    = func(tls *libc.TLS, f, data uintptr, n int32, offset int64) int32
	truncateFn = func(tls *libc.TLS, f uintptr, size int64) int32
	syncFn     = func(tls *libc.TLS, f uintptr, flags int32) int32
)

// install makes ours the default of SQLite, once. It stays so until the process
// ends, and does nothing to a file that no hook is for.
var install = sync.OnceFunc(func() {
	tls := libc.NewTLS()
	defer tls.Close()
	system = at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	name, err := libc.CString("faultdisk")
	if err != nil {
		panic(err)
	}
	address := copied(tls, system)
	ours := at[sqlite3.Tsqlite3_vfs](address)
	ours.FpNext, ours.FzName = 0, name
	set[openFn](&ours.FxOpen, open)
	set[deleteFn](&ours.FxDelete, remove)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, address, 1); rc != OK {
		panic("faultdisk: SQLite takes no file system")
	}
})

// copied returns the address of a copy of v in memory that is SQLite's, not
// Go's, which lets nobody calculate with its addresses. It is never freed.
func copied[T any](tls *libc.TLS, v *T) uintptr {
	address := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(*v)))
	if address == 0 {
		panic("faultdisk: out of memory")
	}
	*at[T](address) = *v
	return address
}

// at is the object that SQLite knows by its address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// A function that SQLite calls is stored as Go stores a function value.
func set[F any](slot *uintptr, fn F) { *(*F)(unsafe.Pointer(slot)) = fn }
func get[F any](slot uintptr) F      { return *(*F)(unsafe.Pointer(&slot)) }

func hookOf(path string) Hook {
	disks.mu.Lock()
	defer disks.mu.Unlock()
	for dir, hook := range disks.hooks {
		if strings.HasPrefix(path, dir) {
			return hook
		}
	}
	return nil
}

// open opens a file as the system does. A watched one gets our methods.
func open(tls *libc.TLS, _, name, f uintptr, flags int32, outFlags uintptr) int32 {
	rc := get[openFn](system.FxOpen)(tls, uintptr(unsafe.Pointer(system)), name, f, flags, outFlags)
	if rc != OK || name == 0 {
		return rc
	}
	path := libc.GoString(name)
	hook := hookOf(path)
	if hook == nil {
		return rc
	}
	o := at[sqlite3.Tsqlite3_file](f)
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.files[f] = &file{path: path, hook: hook, methods: at[sqlite3.Tsqlite3_io_methods](o.FpMethods)}
	o.FpMethods = wrapped(tls, o.FpMethods)
	return rc
}

// wrapped returns the address of the methods with ours in their places. The
// caller holds disks.mu.
func wrapped(tls *libc.TLS, methods uintptr) uintptr {
	address, ok := disks.methods[methods]
	if !ok {
		address = copied(tls, at[sqlite3.Tsqlite3_io_methods](methods))
		m := at[sqlite3.Tsqlite3_io_methods](address)
		set[closeFn](&m.FxClose, closeFile)
		set[writeFn](&m.FxWrite, write)
		set[truncateFn](&m.FxTruncate, truncate)
		set[syncFn](&m.FxSync, syncFile)
		disks.methods[methods] = address
	}
	return address
}

func opened(f uintptr) *file {
	disks.mu.Lock()
	defer disks.mu.Unlock()
	return disks.files[f]
}

func closeFile(tls *libc.TLS, f uintptr) int32 {
	disks.mu.Lock()
	o := disks.files[f]
	delete(disks.files, f)
	disks.mu.Unlock()
	return get[closeFn](o.methods.FxClose)(tls, f)
}

func write(tls *libc.TLS, f, data uintptr, n int32, offset int64) int32 {
	o := opened(f)
	if rc := o.hook(Op{Kind: Write, Path: o.path, Data: unsafe.Slice(at[byte](data), n), Offset: offset}); rc != OK {
		return rc
	}
	return get[writeFn](o.methods.FxWrite)(tls, f, data, n, offset)
}

func truncate(tls *libc.TLS, f uintptr, size int64) int32 {
	o := opened(f)
	if rc := o.hook(Op{Kind: Truncate, Path: o.path, Size: size}); rc != OK {
		return rc
	}
	return get[truncateFn](o.methods.FxTruncate)(tls, f, size)
}

func syncFile(tls *libc.TLS, f uintptr, flags int32) int32 {
	o := opened(f)
	if rc := o.hook(Op{Kind: Sync, Path: o.path}); rc != OK {
		return rc
	}
	return get[syncFn](o.methods.FxSync)(tls, f, flags)
}

func remove(tls *libc.TLS, _, name uintptr, syncDir int32) int32 {
	path := libc.GoString(name)
	if hook := hookOf(path); hook != nil {
		if rc := hook(Op{Kind: Delete, Path: path}); rc != OK {
			return rc
		}
	}
	return get[deleteFn](system.FxDelete)(tls, uintptr(unsafe.Pointer(system)), name, syncDir)
}
