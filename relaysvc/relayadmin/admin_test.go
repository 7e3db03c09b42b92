package relayadmin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
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
	operator relaysvc.Operator
	url, dir string
	ended    chan error   // of the relay
	shut     func() error // closes its store
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
	r := running{operator: server.Operator(), url: url, dir: dir, shut: sync.OnceValue(server.Close), ended: make(chan error, 1)}
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
		must(t, r.shut())
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
	if i, err = r.Identity(ctx, id); err != nil || i.State != relayadmin.StateRegistered || i.Suspended || i.RetiredAt != nil {
		t.Fatalf("resumed: %+v, %v", i, err)
	}
	must(t, r.SetQuota(ctx, id, nil))
	must(t, r.Suspend(ctx, id))
	must(t, r.Purge(ctx, id))
	if i, err = r.Identity(ctx, id); err != nil || !i.Suspended || i.RetiredAt == nil || *i.RetiredAt != now {
		t.Fatalf("purged: %+v, %v", i, err)
	}
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

// TestStatusOfAStoreThatTakesNoDecisions says why.
func TestStatusOfAStoreThatTakesNoDecisions(t *testing.T) {
	r := start(t)
	must(t, r.Drain(ctx, nil, nil))
	must(t, <-r.ended)
	must(t, r.shut())
	s, err := r.Status(ctx)
	must(t, err)
	if s.Store == "ok" || s.Store == "" {
		t.Fatalf("status %+v", s)
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
	_, err = relayadmin.Listen(path)
	wants(t, err, fault.LockBusy)                  // another relay serves there
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
	long := filepath.Join(dir, "long", strings.Repeat("x", 104))
	_, err = relayadmin.Listen(long)
	wants(t, err, fault.InvalidArgument)
	if _, err := os.Stat(filepath.Dir(long)); err == nil {
		t.Error("a refused path made a folder")
	}
	must(t, relayadmin.CheckPath(strings.Repeat("x", 103)))
	wants(t, relayadmin.CheckPath(strings.Repeat("x", 104)), fault.InvalidArgument)
}

// audited returns the lines of an audit log, each as it is but for the process.
func audited(t *testing.T, path string) (got []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var l struct {
			At, Number     int64
			Action, Target string
			Request        json.RawMessage
			Outcome        string
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			got = append(got, "not JSON")
			continue
		}
		got = append(got, fmt.Sprint(l.At, " ", l.Number, " ", l.Action, " ", l.Target, " ", string(l.Request), " ", l.Outcome))
	}
	return got
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWhatWasAskedForIsOnRecord, where the action and the target do not say it.
func TestWhatWasAskedForIsOnRecord(t *testing.T) {
	r := start(t)
	id := r.register(t)
	must(t, r.SetQuota(ctx, id, &relayadmin.Quota{Entries: 7, Bytes: 70000}))
	wants(t, r.SetQuota(ctx, id, &relayadmin.Quota{}), fault.InvalidArgument)
	spread := time.Second
	must(t, r.Drain(ctx, nil, &spread))
	at := fmt.Sprint(now)
	wantLines(t, audited(t, filepath.Join(r.dir, "audit.log")),
		at+" 1 quota set "+id+` {"entries":7,"bytes":70000} begun`,
		at+" 1 quota set "+id+` {"entries":7,"bytes":70000} done`,
		at+" 2 quota set "+id+` {"entries":0,"bytes":0} begun`,
		at+" 2 quota set "+id+` {"entries":0,"bytes":0} invalid_argument`,
		at+` 3 drain  {"deadline":null,"spread":1} begun`,
		at+` 3 drain  {"deadline":null,"spread":1} done`)
}

// TestTheAuditLogGoesOn where a process was killed in the middle of a line.
func TestTheAuditLogGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	must(t, os.WriteFile(path, []byte(`{"at":1,"act`), 0o600))
	for range 2 {
		log, err := relayadmin.OpenAuditLog(path)
		must(t, err)
		must(t, log.Record(5, "restore", "file", func() error { return nil }))
		must(t, log.Close())
	}
	wantLines(t, audited(t, path), "not JSON",
		"5 1 restore file  begun", "5 1 restore file  done", "5 1 restore file  begun", "5 1 restore file  done")

	must(t, os.Chmod(path, 0o640))
	_, err := relayadmin.OpenAuditLog(path)
	wants(t, err, fault.StorageFailed)
}

// TestWhatCannotBeRecordedIsNotDone.
func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	log, err := relayadmin.OpenAuditLog(filepath.Join(t.TempDir(), "audit.log"))
	must(t, err)
	must(t, log.Close())
	wants(t, log.Record(5, "purge", "id", func() error { t.Error("it was done"); return nil }), fault.StorageFailed)

	// What could not be recorded afterwards is told.
	log, err = relayadmin.OpenAuditLog(filepath.Join(t.TempDir(), "audit.log"))
	must(t, err)
	wants(t, log.Record(5, "purge", "id", log.Close), fault.StorageFailed)
}

// TestOddRequests: what no command sends is refused with a code.
func TestOddRequests(t *testing.T) {
	r := start(t)
	id := r.register(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.dir, "admin.sock"))
	}}}
	for _, q := range []struct{ method, path, body string }{
		{"GET", "/identities?limit=0", ""},
		{"GET", "/identities?limit=1001", ""},
		{"GET", "/handles?limit=x", ""},
		{"PUT", "/identities/" + id + "/quota", ""},
		{"PUT", "/identities/" + id + "/quota", `{"entries":1,"bytes":1,"more":1}`},
		{"PUT", "/identities/" + id + "/quota", `{"entries":1,"bytes":1` + strings.Repeat(" ", 1<<16) + "}"},
		{"POST", "/drain", "{"},
		{"GET", "/identities/nobody", ""},
		{"DELETE", "/identities/nobody/quota", ""},
		{"DELETE", "/identities/nobody", ""},
		{"DELETE", "/handles/No", ""},
	} {
		req, err := http.NewRequest(q.method, "http://relay"+q.path, strings.NewReader(q.body))
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		var f struct{ Error, Message string }
		must(t, json.NewDecoder(resp.Body).Decode(&f))
		resp.Body.Close()
		if resp.StatusCode != http.StatusConflict || f.Error != "invalid_argument" || f.Message == "" {
			t.Errorf("%s %s: %d %+v", q.method, q.path, resp.StatusCode, f)
		}
	}
	i, err := r.Identity(ctx, id)
	must(t, err)
	if i.Quota != nil || i.State != relayadmin.StateRegistered {
		t.Errorf("changed to %+v", i)
	}
}

func TestNoRelay(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	ln, err := net.Listen("unix", stale)
	must(t, err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as after a crash
	must(t, ln.Close())
	for _, path := range []string{filepath.Join(dir, "admin.sock"), stale, filepath.Join(dir, strings.Repeat("x", 104))} {
		c := relayadmin.NewClient(path)
		_, err := c.Status(ctx)
		c.Close()
		if fault.CodeOf(err) != fault.RelayUnavailable || !strings.Contains(err.Error(), "no relay runs") {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}

func TestAReportWithProblemsIsNotWhole(t *testing.T) {
	if relayadmin.NewReport(relaydb.Report{Problems: []string{"one"}}).Whole || !relayadmin.NewReport(relaydb.Report{}).Whole {
		t.Error("whole or not does not follow from the problems")
	}
}
