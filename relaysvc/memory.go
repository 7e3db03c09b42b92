package relaysvc

import (
	"context"
	"sync"
	"time"
)

// memory bounds the bytes that requests hold at the same time: whoever finds
// too little left waits in order. A quarter is left to the smallest buffers,
// which never wait behind a large one: clients that begin large bodies and do
// not end them cost the others nothing. It keeps buffers for another use.
type memory struct {
	spare [len(sizes)]sync.Pool // of *[]byte
	slow  time.Duration         // that a client may have a loan where others wait

	mu      sync.Mutex
	left    int64     // guarded by mu, as what follows
	limit   int64     // of left
	waiting []*waiter // the first is the next
	lent    map[*loan]bool
}

type waiter struct {
	size int64
	got  chan struct{} // closed when the bytes are its own
}

func newMemory(limit int64, slow time.Duration) *memory {
	return &memory{slow: slow, left: limit, limit: limit, lent: map[*loan]bool{}}
}

// try takes bytes if they are left and nobody waits.
func (m *memory) try(size int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	size = min(size, m.limit)
	if size > int64(sizes[0]) && len(m.waiting) > 0 || !m.fits(size) {
		return false
	}
	m.left -= size
	return true
}

// tryFirst takes a buffer for all bytes of a page or a part or, where too much
// is in the hands of others for that, a small one that is enough for its first
// entry. It returns which buffer that is, the one for all when neither is left.
func (m *memory) tryFirst(all, first int) (size int, ok bool) {
	size = sizeFor(all)
	switch {
	case m.try(int64(sizes[size])):
		return size, true
	case first <= sizes[0] && m.try(int64(sizes[0])):
		return 0, true
	}
	return size, false
}

// fits reports whether bytes are left. The caller holds mu.
func (m *memory) fits(size int64) bool {
	if size > int64(sizes[0]) && size < m.limit {
		return m.left-size >= min(m.limit/4, m.limit-size)
	}
	return m.left >= size
}

// take waits for bytes, and reports whether it got them in time. More than
// there can ever be is all of it.
func (m *memory) take(ctx context.Context, size int64, patience time.Duration) bool {
	if m.try(size) {
		return true
	}
	w := &waiter{size: min(size, m.limit), got: make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, w)
	m.serve()
	m.recall()
	m.mu.Unlock()
	return m.wait(ctx, w, patience) || !m.leave(w)
}

// wait waits for the bytes of w and has those go who become too slow meanwhile.
func (m *memory) wait(ctx context.Context, w *waiter, patience time.Duration) bool {
	over := time.NewTimer(patience)
	defer over.Stop()
	look := time.NewTicker(max(m.slow, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-w.got:
			return true
		case <-look.C:
			m.mu.Lock()
			m.recall()
			m.mu.Unlock()
		case <-ctx.Done():
			return false
		case <-over.C:
			return false
		}
	}
}

// leave gives up waiting, unless the bytes have come after all.
func (m *memory) leave(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.waiting {
		if m.waiting[i] == w {
			m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
			m.serve()
			return true
		}
	}
	return false
}

func (m *memory) give(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += min(size, m.limit)
	m.serve()
}

// serve gives bytes to those who wait. The caller holds mu.
func (m *memory) serve() {
	for len(m.waiting) > 0 && m.fits(m.waiting[0].size) {
		w := m.waiting[0]
		m.left -= w.size
		close(w.got)
		m.waiting = m.waiting[1:]
	}
}

// sizes are those of the buffers that are kept for another use: for a send of
// the usual length, some growth, the largest body and the largest page.
var sizes = [...]int{20 << 10, 80 << 10, 320 << 10, 1 << 20, 2<<20 + 128<<10, 8<<20 + 256<<10}

// buffer is memory for a body or a page. Its zero value is empty.
type buffer struct {
	data []byte
	size int // index in sizes, when data is not nil
}

// sizeFor returns the index of the smallest buffer for n bytes, the largest for
// more.
func sizeFor(n int) int {
	i := 0
	for i < len(sizes)-1 && sizes[i] < n {
		i++
	}
	return i
}

// held is what the buffer counts for.
func (b *buffer) held() int64 {
	if b.data == nil {
		return 0
	}
	return int64(sizes[b.size])
}

// grow gives a buffer another size, for which the bytes have been taken, and
// keeps what is in it.
func (m *memory) grow(b *buffer, size int) {
	var data []byte
	if p, ok := m.spare[size].Get().(*[]byte); ok {
		data = *p
	} else {
		data = make([]byte, sizes[size])
	}
	data = append(data[:0], b.data...)
	m.free(b)
	b.data, b.size = data, size
}

// free gives a buffer back for another use. Nobody may look at it any more.
func (m *memory) free(b *buffer) {
	if b.data == nil {
		return
	}
	data := b.data[:0]
	m.spare[b.size].Put(&data)
	m.drop(b)
}

// drop gives the bytes of a buffer back, whose memory somebody still looks at.
func (m *memory) drop(b *buffer) {
	m.give(b.held())
	b.data = nil
}
