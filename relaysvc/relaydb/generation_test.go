package relaydb_test

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// A store gives stream IDs of the generation it was made with for as long as it
// is there, whatever later openings say.
func TestGenerationOfAStore(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	for i, want := range []string{"77-1", "77-2"} {
		d, err := relaydb.OpenWith(ctx, path, now, relaydb.Options{Generation: int64(77 + i)})
		must(t, err)
		if i == 0 {
			registered(t, d, "alice")
		}
		enqueue(t, d, packet("alice", "bob", "packet "+want))
		if got := queue(t, d, "alice"); len(got) != i+1 || got[i].StreamID != want {
			t.Errorf("opened for the %d. time: %v", i+1, got)
		}
		must(t, d.Close())
	}
}
