package relaydb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// noise returns n bytes that occur once in a store.
func noise(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return string(b)
}

// atRest writes a store with packets of these texts and returns its bytes.
func atRest(t *testing.T, texts []string) []byte {
	t.Helper()
	path := filepath.Join(dataDir(t), "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	for _, text := range texts {
		enqueue(t, d, packet("alice", "bob", text))
	}
	must(t, d.MoveAll(ctx))
	must(t, d.Close())
	file, err := os.ReadFile(path)
	must(t, err)
	return file
}

// TestEachBit flips every bit of a packet, one after the other, in every other
// packet of the store: each is found and counted, and the packets between are
// served as they were sent.
func TestEachBit(t *testing.T) {
	const packets, size = 64, 48
	random := rand.New(rand.NewPCG(1, 1))
	var texts []string
	for range packets {
		texts = append(texts, noise(random, size))
	}
	file := atRest(t, texts)
	at := make([]int, packets)
	for i, text := range texts {
		at[i] = find(t, file, text)
	}
	path := filepath.Join(dataDir(t), "relay.db")
	const flips = packets / 2
	for first := 0; first < size*8; first += flips {
		changed := bytes.Clone(file)
		var want []string
		for i, text := range texts {
			if i%2 == 1 {
				want = append(want, text)
				continue
			}
			bit := first + i/2
			changed[at[i]+bit/8] ^= 1 << (bit % 8)
		}
		must(t, os.WriteFile(path, changed, 0o600))
		d := open(t, path)
		if got := textsOf(t, d); !slices.Equal(got, want) {
			t.Fatalf("bits from %d: %d packets are served, want %d", first, len(got), len(want))
		}
		s, err := d.Stats(ctx, now)
		must(t, err)
		if s.Damaged != flips || s.Quarantined != flips || s.Entries != packets-flips {
			t.Fatalf("bits from %d: %+v", first, s)
		}
		must(t, d.Close())
	}
}

// textsOf returns the packets of alice in order.
func textsOf(t *testing.T, d *relaydb.DB) (texts []string) {
	t.Helper()
	for _, e := range queue(t, d, "alice") {
		texts = append(texts, string(e.Packet))
	}
	return texts
}

// TestEachPage flips bits anywhere in the store, also where SQLite keeps its
// own. Whatever that does, nobody is served a packet that was not sent, nothing
// panics, and what fails says that the store did.
func TestEachPage(t *testing.T) {
	flips := 3 // of a page
	if testing.Short() {
		flips = 1
	}
	random := rand.New(rand.NewPCG(2, 2))
	texts := mixed(random)
	file := atRest(t, texts)
	for page := 0; page < len(file); page += pageSize {
		for range flips {
			changed := bytes.Clone(file)
			// What SQLite keeps is at the start and at the end of a page.
			at := page + random.IntN(64)
			if random.IntN(2) == 0 {
				at = page + pageSize - 1 - random.IntN(256)
			}
			changed[at] ^= 1 << random.IntN(8)
			opened(t, fmt.Sprint("a bit of byte ", at), changed, texts)
		}
	}
}

// TestTruncated cuts the store off at every page. An empty file is a new store,
// which knows nobody; any other is refused, or serves what is whole and says
// that the rest is not.
func TestTruncated(t *testing.T) {
	texts := mixed(rand.New(rand.NewPCG(3, 3)))
	file := atRest(t, texts)
	for size := pageSize; size < len(file); size += pageSize {
		if n, complained := opened(t, fmt.Sprint("cut at ", size), file[:size], texts); n < len(texts) && !complained {
			t.Errorf("cut at %d: %d of %d packets are served, and nothing is said", size, n, len(texts))
		}
	}
}

const pageSize = 4096

// mixed returns texts that share a page, fill one, and take several.
func mixed(random *rand.Rand) (texts []string) {
	for _, size := range []int{50, 300, 300, 1000, 1000, 3900, 5000, 9000, 20_000, 50} {
		texts = append(texts, noise(random, size))
	}
	return texts
}

// opened opens a store with these bytes and reads the queue. It returns how
// many packets are served, and whether anything said that the store is damaged.
func opened(t *testing.T, what string, file []byte, texts []string) (packets int, complained bool) {
	t.Helper()
	path := filepath.Join(dataDir(t), "relay.db")
	must(t, os.WriteFile(path, file, 0o600))
	d, err := relaydb.Open(ctx, path, now)
	if err != nil {
		wantFailed(t, err)
		return 0, true
	}
	defer d.Close()
	i, err := d.Identity(ctx, "alice")
	if err != nil {
		return 0, fault.CodeOf(err) == fault.StorageFailed
	}
	_, err = d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: i.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(e relaydb.Entry) bool {
		if !slices.Contains(texts, string(e.Packet)) {
			t.Errorf("%s: %s is a packet that nobody sent", what, e.StreamID)
		}
		packets++
		return true
	})
	if err != nil && fault.CodeOf(err) == fault.StorageFailed {
		complained = true
	}
	s, err := d.Stats(ctx, now)
	if err != nil || s.Damaged > 0 {
		complained = true
	}
	return packets, complained
}
