package relaysvc

import (
	"bytes"
	"testing"
	"time"
	"unsafe"

	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestDirectoryPageGrows makes a page through every size of a buffer: it is in
// the memory that is counted, and nothing else is.
func TestDirectoryPageGrows(t *testing.T) {
	m := newMemory(64<<20, time.Hour)
	p := &directoryPage{memory: m, limit: wire.MaxInboxPage, page: relayapi.NewDirectoryPage(wire.MaxInboxPage)}
	for _, size := range []int{100, 30_000, 100_000, 400_000, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20} {
		p.add("ace", append(bytes.Repeat([]byte("x"), size-1), '.'))
		if m.limit-m.left != p.buffer.held() {
			t.Fatalf("%d bytes are counted for a buffer of %d", m.limit-m.left, p.buffer.held())
		}
	}
	if !p.more || p.page.Len() < wire.MaxPageBytes-1<<20 {
		t.Fatalf("the page ends after %d bytes", p.page.Len())
	}
	body := p.finish()
	if len(body) > wire.MaxPageBytes || bytes.Count(body, []byte("x.")) != p.page.Entries() {
		t.Fatalf("%d bytes, %d entries", len(body), p.page.Entries())
	}
	if unsafe.SliceData(body) != unsafe.SliceData(p.buffer.data) {
		t.Fatal("the page is in other memory than is counted")
	}
	m.free(&p.buffer)
	if m.left != m.limit {
		t.Fatalf("%d bytes are missing", m.limit-m.left)
	}
}
