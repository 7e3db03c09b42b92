package relayadmin_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx = context.Background()
	now = int64(1760140800)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// running is a relay on loopback with its admin socket.
type running struct {
	*relayadmin.Client
	url, dir string
	ended    chan error // of the relay
}

func start(t *testing.T) running {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	server, err := relaysvc.New(relaysvc.Config{
		Development: true, DBPath: filepath.Join(dir, "relay.db"), Clock: func() int64 { return now },
	})
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url, err := relaysvc.LoopbackURL(ln.Addr())
	must(t, err)
	r := running{url: url, dir: dir, ended: make(chan error, 1)}
	serving, stop := context.WithCancel(ctx)
	go func() { r.ended <- server.Serve(serving, ln) }()

	socket := filepath.Join(dir, "admin.sock")
	audit, err := relayadmin.OpenAuditLog(filepath.Join(dir, "audit.log"))
	must(t, err)
	admin, err := relayadmin.Listen(socket)
	must(t, err)
	administering, stopAdmin := context.WithCancel(ctx)
	adminEnded := make(chan error, 1)
	go func() {
		adminEnded <- relayadmin.Serve(administering, admin, relayadmin.Relay{Operator: server.Operator(), Audit: audit})
	}()
	r.Client = relayadmin.NewClient(socket)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		r.Close()
		stop()
		stopAdmin()
		must(t, <-adminEnded)
		must(t, audit.Close())
		select {
		case err := <-r.ended:
			must(t, err)
		default: // a test has waited for it
		}
		must(t, server.Close())
	})
	return r
}

// register registers a new identity over HTTP.
func (r running) register(t *testing.T) string {
	t.Helper()
	root, next, signing := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now-10)
	must(t, err)
	state, err = state.Delegate(root, signing.PublicKey(), now-10, 0)
	must(t, err)
	id := kel.NewIdentity(state, signing)
	registration, err := relayapi.BuildRegistration(id, r.url, now)
	must(t, err)
	resp, err := http.Post(r.url+"/v1/register", relayapi.MediaJSON, strings.NewReader(string(registration.Raw)))
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("registration: %s", resp.Status)
	}
	return id.ACEID()
}

func TestStatus(t *testing.T) {
	r := start(t)
	s, err := r.Status(ctx)
	must(t, err)
	if s.PublicURL != r.url || s.PID != os.Getpid() || s.Draining || s.Store != "ok" || s.Now != now {
		t.Fatalf("status %+v", s)
	}
}

func TestIdentitiesCanBeSuspendedBoundedAndPurged(t *testing.T) {
	r := start(t)
	id := r.register(t)
	r.register(t)
	all, err := r.Identities(ctx, "", 10)
	must(t, err)
	if len(all) != 2 {
		t.Fatalf("%d identities", len(all))
	}
	must(t, r.Suspend(ctx, id))
	must(t, r.SetQuota(ctx, id, &relayadmin.Quota{Entries: 7, Bytes: 70000}))
	i, err := r.Identity(ctx, id)
	must(t, err)
	if i.State != relayadmin.StateSuspended || i.Quota == nil || i.Quota.Entries != 7 || i.RegisteredAt != now {
		t.Fatalf("identity %+v", i)
	}
	must(t, r.Resume(ctx, id))
	must(t, r.SetQuota(ctx, id, nil))
	must(t, r.Purge(ctx, id))
	if i, err = r.Identity(ctx, id); err != nil || i.State != relayadmin.StateUnregistered || i.Quota != nil {
		t.Fatalf("identity %+v, %v", i, err)
	}
	wants(t, r.Purge(ctx, id), fault.NotRegistered)
	wants(t, r.Suspend(ctx, wire.ACEID(suite.Hex256(nil))), fault.UnknownPeer)
	wants(t, r.Suspend(ctx, "nobody"), fault.InvalidArgument)
	wants(t, r.SetQuota(ctx, id, &relayadmin.Quota{}), fault.InvalidArgument)
}

func TestHandlesCanBeReserved(t *testing.T) {
	r := start(t)
	must(t, r.Reserve(ctx, "admin"))
	all, err := r.Handles(ctx, "", 10)
	must(t, err)
	if len(all) != 1 || all[0].Handle != "admin" || all[0].State != "reserved" {
		t.Fatalf("handles %+v", all)
	}
	must(t, r.Release(ctx, "admin"))
	wants(t, r.Release(ctx, "admin"), fault.UnknownPeer)
	wants(t, r.Reserve(ctx, "No Handle"), fault.InvalidArgument)
}

func TestBackupVerifyAndCollect(t *testing.T) {
	r := start(t)
	r.register(t)
	report, err := r.Verify(ctx)
	must(t, err)
	if !report.Whole || report.Identities != 1 {
		t.Fatalf("report %+v", report)
	}
	b, err := r.Backup(ctx, filepath.Join(r.dir, "copy.db"))
	must(t, err)
	if !b.Whole || b.Size == 0 {
		t.Fatalf("backup %+v", b)
	}
	_, err = r.Backup(ctx, "copy.db")
	wants(t, err, fault.InvalidArgument)
	must(t, r.Collect(ctx))
}

// TestDrainEndsTheRelay while the admin socket still answers.
func TestDrainEndsTheRelay(t *testing.T) {
	r := start(t)
	must(t, r.Drain(ctx, nil, nil))
	must(t, <-r.ended)
	s, err := r.Status(ctx)
	must(t, err)
	if !s.Draining {
		t.Fatal("it does not say that it is draining")
	}
}

// TestEveryChangeIsRecorded: two lines each, also for one that is refused, and
// none for a look.
func TestEveryChangeIsRecorded(t *testing.T) {
	r := start(t)
	id := r.register(t)
	must(t, r.Suspend(ctx, id))
	wants(t, r.Release(ctx, "admin"), fault.UnknownPeer)
	_, err := r.Status(ctx)
	must(t, err)

	path := filepath.Join(r.dir, "audit.log")
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", info.Mode())
	}
	text, err := os.ReadFile(path)
	must(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		var l struct{ Action, Target, Outcome string }
		must(t, json.Unmarshal([]byte(line), &l))
		got = append(got, l.Action+" "+l.Target+" "+l.Outcome)
	}
	want := []string{"suspend " + id + " begun", "suspend " + id + " done", "handle release admin begun", "handle release admin unknown_peer"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	path := filepath.Join(dir, "admin.sock")
	ln, err := relayadmin.Listen(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v", info.Mode())
	}
	if info, err = os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", info.Mode(), err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as after a crash
	must(t, ln.Close())
	ln, err = relayadmin.Listen(path)
	must(t, err)
	must(t, ln.Close())

	must(t, os.WriteFile(path, nil, 0o600))
	_, err = relayadmin.Listen(path)
	wants(t, err, fault.StorageFailed)
	must(t, os.Remove(path))
	must(t, os.Chmod(dir, 0o755))
	_, err = relayadmin.Listen(path)
	wants(t, err, fault.StorageFailed)
	_, err = relayadmin.Listen("/" + strings.Repeat("x", 104))
	wants(t, err, fault.InvalidArgument)
}

func TestNoRelay(t *testing.T) {
	c := relayadmin.NewClient(filepath.Join(t.TempDir(), "admin.sock"))
	defer c.Close()
	_, err := c.Status(ctx)
	wants(t, err, fault.RelayUnavailable)
}
