package relaysvc_test

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestReplayAfterARestore restores a backup that does not know of a nonce which
// was spent after it: the request is not served again, and who signs a new one
// is (07#authentication "accepted once").
func TestReplayAfterARestore(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	backup := filepath.Join(t.TempDir(), "backup")
	_, err := r.server.Operator().Backup(t.Context(), backup)
	must(t, err)
	inbox := func() call {
		return call{method: "GET", path: "/v1/inbox", header: a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100))}
	}
	spent := inbox()
	r.expect("ok", r.do(spent))
	r.stop()

	r.now.Add(5)
	_, err = relaydb.Restore(t.Context(), backup, r.path, true, r.now.Load())
	must(t, err)
	r.run(nil)
	t.Cleanup(func() { r.stop() })
	r.expect("stale_timestamp", r.do(spent))
	r.now.Add(1)
	r.expect("ok", r.do(inbox()))
}
