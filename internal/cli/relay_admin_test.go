package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

// atSocket serves an admin socket in place of a relay and returns its path.
func atSocket(t *testing.T, status http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ace-status-") // a short path
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "admin.sock")
	ln, err := net.Listen("unix", path)
	must(t, err)
	server := &http.Server{Handler: status}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return path
}

// TestStatusOfARelayThatHangs: a process that takes connections and no more is
// told from none at all.
func TestStatusOfARelayThatHangs(t *testing.T) {
	s := newStage(t)
	socket := atSocket(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	r := s.try("relay", "status", "--admin-socket", socket, "--timeout", "100ms", "--json")
	if r.status != exitTransient || !strings.Contains(r.err, "does not answer") || !strings.Contains(r.err, `"hint":"look at`) {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

// TestStatusOfAStoreThatFails: what is known is printed, and the status tells.
func TestStatusOfAStoreThatFails(t *testing.T) {
	s := newStage(t)
	for store, want := range map[string]int{relayadmin.StoreOK: exitOK, "the store does not answer": exitStorage} {
		socket := atSocket(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(relayadmin.Status{PID: 7, Store: store})
		})
		r := s.try("relay", "status", "--admin-socket", socket, "--json")
		if r.status != want || !strings.Contains(r.out, `"pid":7,`) || strings.Contains(r.err, store) != (want != exitOK) {
			t.Errorf("%s: status %d: %s%s", store, r.status, r.out, r.err)
		}
	}
}

// TestOneOfEach prints what there is one of.
func TestOneOfEach(t *testing.T) {
	a := &app{io: newStage(t).io("")}
	one := relayadmin.Report{Entries: 1, Bytes: 1, Problems: []string{"it"}}
	for _, r := range []result{
		relayBackup{Report: one, Size: 1}, storeReport(one),
		relayIdentity{Entries: 1, Bytes: 1, StoredBytes: 1, Quota: &relayadmin.Quota{Entries: 1, Bytes: 1}},
		benchSendAnswer{BodyBytes: 1},
	} {
		var out bytes.Buffer
		a.io.Out = &out
		must(t, a.print(r))
		if plural := regexp.MustCompile(`\b1 [a-z]+s\b`).FindString(out.String()); plural != "" || !strings.Contains(out.String(), "1 byte") {
			t.Errorf("%T: %q in %s", r, plural, out.String())
		}
	}
	if err := wholeOr(one, "it"); !strings.HasSuffix(err.Error(), ": 1 problem") {
		t.Error(err)
	}
}
