package relaysvc

import (
	"net/http"
	"time"
)

// loan is memory that is in the hands of a client: of a body that is still
// coming, or of an answer or a part of a stream that is still going.
type loan struct {
	since time.Time
	size  int64
	end   func()
}

// lend notes that size bytes come back when a client has done its part. When
// others have to wait for memory and the client has had its time, end is
// called, once, which must not block: a client that takes its time costs nobody
// else theirs. After back has returned, end is not called.
func (m *memory) lend(size int64, end func()) (back func()) {
	if size <= int64(sizes[0]) {
		return func() {} // nobody waits for as little
	}
	l := &loan{time.Now(), size, end}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lent[l] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.lent, l)
	}
}

// recall ends loans of clients that have had their time, as far as the memory
// is needed for those who wait. The caller holds mu.
func (m *memory) recall() {
	need := m.limit/4 - m.left
	for _, w := range m.waiting {
		need += w.size
	}
	for l := range m.lent {
		if need <= 0 || len(m.waiting) == 0 {
			return
		}
		if time.Since(l.since) >= m.slow {
			delete(m.lent, l)
			l.end()
			need -= l.size
		}
	}
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// acceptLent is accept with a body in memory of which size bytes are counted.
// It returns when the client has taken the body or is given up.
func (s *Server) acceptLent(w http.ResponseWriter, body []byte, m *memory, size int64) error {
	defer m.lend(size, func() { _ = http.NewResponseController(w).SetWriteDeadline(longAgo) })()
	return s.accept(w, body)
}
