package relaysvc_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// smallDisk is a file system in memory, which needs the right to mount one.
type smallDisk struct {
	t    testing.TB
	path string
}

func newSmallDisk(t testing.TB) *smallDisk {
	t.Helper()
	d := &smallDisk{t, filepath.Join(t.TempDir(), "disk")}
	must(t, os.Mkdir(d.path, 0o700))
	if err := syscall.Mount("tmpfs", d.path, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
		t.Skipf("no file system of a given size can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.path, syscall.MNT_DETACH) })
	return d
}

func (d *smallDisk) free() int64 {
	d.t.Helper()
	var st syscall.Statfs_t
	must(d.t, syscall.Statfs(d.path, &st))
	return int64(st.Bavail) * st.Bsize
}

// leave fills the disk with another file until so many bytes are free.
func (d *smallDisk) leave(bytes int64) {
	d.t.Helper()
	file, err := os.OpenFile(filepath.Join(d.path, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(d.t, err)
	defer file.Close()
	page := make([]byte, 4096)
	for d.free() > bytes {
		if _, err := file.Write(page); err != nil {
			break
		}
	}
}

func (d *smallDisk) clear() {
	d.t.Helper()
	must(d.t, os.Remove(filepath.Join(d.path, "filler")))
}

// startOn runs a relay with its store on a disk.
func startOn(t testing.TB, d *smallDisk, floor int64, log io.Writer) *relay {
	t.Helper()
	r := &relay{t: t, path: filepath.Join(d.path, "data", "relay.db")}
	r.now.Store(epoch)
	r.run(func(c *relaysvc.Config) {
		c.Limits.DiskFloor = floor
		c.Log = slog.NewTextHandler(log, nil)
	})
	t.Cleanup(func() { r.stop() })
	return r
}

// until asks until the answer is the wanted one: the relay looks at its disk
// once a second.
func until(t testing.TB, want string, ask func() answer) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got := ask()
		if got.outcome(t) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d %s, want %s", got.status, got.body, want)
		}
	}
}

// TestDiskAtItsFloor fills the disk of a relay down to its floor: what would grow
// the store is refused, what makes room still works, and all is well again
// once there is room.
func TestDiskAtItsFloor(t *testing.T) {
	d := newSmallDisk(t)
	r := startOn(t, d, 8<<20, io.Discard)
	a, b := r.published(), r.registered()
	from := strangerID()
	for range 3 {
		r.expect("ok", r.send(a.packet(from), a.permit(from)))
	}
	d.leave(4 << 20)
	send := func() answer { return r.send(a.packet(from), a.permit(from)) }
	until(t, "rate_limited", send)
	entries := a.messages()
	for _, refused := range []answer{
		send(), b.post("/v1/descriptor", b.descriptor(-1).Raw()), b.register(epoch + 1), r.newAgent().register(epoch),
	} {
		refused.expect(t, "rate_limited")
	}
	if got := r.do(call{method: "GET", path: "/health/ready"}); got.status != http.StatusServiceUnavailable {
		t.Fatalf("the relay says that it is ready: %s", got.body)
	}
	if n := len(a.messages()); n != len(entries) {
		t.Fatalf("%d entries, want %d", n, len(entries))
	}
	l := a.listen("-")
	l.want("connected", "")
	for range entries {
		if e, ok := l.next(); !ok || e.name != "catchup" {
			t.Fatalf("got %v", e)
		}
	}
	r.expect("ok", a.ack(entries[len(entries)-2].StreamID))
	r.expect("ok", a.block(from, true, 1))
	r.expect("ok", b.unregister(epoch+1))
	if n := len(a.messages()); n != 1 {
		t.Fatalf("%d entries after the acknowledgement", n)
	}
	d.clear()
	until(t, "ok", func() answer { return r.send(a.packet(strangerID()), nil) })
}

// TestDiskFull fills the disk of a relay that has no floor. A send that finds no
// room fails, and says so in the log; nothing that was accepted is lost, and
// the relay goes on once there is room.
func TestDiskFull(t *testing.T) {
	d := newSmallDisk(t)
	var log bytes.Buffer
	r := startOn(t, d, 1, &log)
	a := r.registered()
	from := strangerID()
	send := func() (string, answer) {
		p := opaque(from, a.aceID(), epoch, 300_000)
		return string(p), r.send(p, a.permit(from))
	}
	p, got := send()
	r.expect("ok", got)
	accepted := []string{p}
	d.leave(0)
	for range 5 {
		p, got := send()
		switch got.outcome(t) {
		case "ok":
			accepted = append(accepted, p)
		case "internal_error", "rate_limited":
		default:
			t.Fatalf("a full disk is no fault of the sender: %d %s", got.status, got.body)
		}
	}
	if len(accepted) > 3 {
		t.Fatal("the disk is not full: the test shows nothing")
	}
	d.clear()
	until(t, "ok", func() answer {
		p, got := send()
		if got.outcome(t) == "ok" {
			accepted = append(accepted, p)
		}
		return got
	})
	same(t, texts(a.messages()), accepted)
	r.stop()
	r.run(nil)
	same(t, texts(a.messages()), accepted)
}

// TestReadOnlyDisk opens a store that cannot be written.
func TestReadOnlyDisk(t *testing.T) {
	d := newSmallDisk(t)
	r := startOn(t, d, 1, io.Discard)
	r.registered()
	r.stop()
	must(t, syscall.Mount("", d.path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for _, path := range []string{r.path, filepath.Join(d.path, "new", "relay.db")} {
		server, err := relaysvc.New(relaysvc.Config{PublicURL: "https://relay.example", DBPath: path})
		if fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: got %v", path, err)
		}
		if err == nil {
			_ = server.Close()
		}
	}
	must(t, syscall.Mount("", d.path, "", syscall.MS_REMOUNT, "size=24m"))
	r.run(nil)
	r.expect("ok", r.do(call{method: "GET", path: "/health"}))
}
