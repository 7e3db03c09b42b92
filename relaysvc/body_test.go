package relaysvc

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// standing has a clock that stands still.
var standing = Config{Clock: func() int64 { return 1_760_140_800 }}

// deadlines is an answer over a connection whose read deadline a test sees.
type deadlines struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
	last *time.Time
}

func (d deadlines) SetReadDeadline(t time.Time) error {
	*d.last = t
	if t.Equal(longAgo) {
		_ = d.body.CloseWithError(os.ErrDeadlineExceeded)
	}
	return nil
}

// arriving is a request whose body is still to come.
func arriving(t *testing.T) (deadlines, *request, *io.PipeWriter) {
	t.Helper()
	in, out := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/", in)
	r.Header.Set("Content-Type", "application/json")
	return deadlines{httptest.NewRecorder(), in, new(time.Time)}, &request{Request: r}, out
}

// TestBodyIsReturned reads a body through every size of a buffer: what it took
// is given back, and the connection has no deadline any more.
func TestBodyIsReturned(t *testing.T) {
	s := &Server{config: standing, bodies: newMemory(64<<20, 0)}
	w, r, out := arriving(t)
	*w.last = longAgo
	text := strings.Repeat("0123456789", 200_000)
	go func() {
		_, _ = io.WriteString(out, text)
		out.Close()
	}()
	got, err := s.borrowBody(w, r, 1<<21)
	if err != nil || string(got) != text {
		t.Fatalf("%d bytes, error %v", len(got), err)
	}
	if !w.last.IsZero() {
		t.Fatalf("the next request has the deadline %s", w.last)
	}
	if len(s.bodies.lent) > 0 {
		t.Fatalf("%d loans of a body that has come", len(s.bodies.lent))
	}
	s.release(r)
	if s.bodies.left != s.bodies.limit {
		t.Fatalf("%d bytes are missing", s.bodies.limit-s.bodies.left)
	}
}

// TestRecalledBody has others need the memory of a body that does not come:
// its client may try again.
func TestRecalledBody(t *testing.T) {
	s := &Server{bodies: newMemory(1<<20, 0)}
	w, r, out := arriving(t)
	read := make(chan error)
	go func() {
		_, err := s.readBody(w, r, 1<<20)
		s.release(r)
		read <- err
	}()
	if _, err := out.Write(bytes.Repeat([]byte(" "), sizes[0]+1)); err != nil {
		t.Fatal(err)
	}
	if !s.bodies.take(t.Context(), 1<<20, patience) {
		t.Fatal("the memory does not come")
	}
	if err := <-read; !errors.Is(err, errNoMemory) {
		t.Fatalf("got %v", err)
	}
	if w.Header().Get("Connection") != "close" {
		t.Fatal("the connection stays open in the middle of a body")
	}
}

const patience = 20 * time.Second

// TestKeptBody reads bodies that are kept: no later body is in their memory.
func TestKeptBody(t *testing.T) {
	s := &Server{config: standing, bodies: newMemory(64<<20, time.Hour)}
	var kept [][]byte
	for n := range 20 {
		text := strings.Repeat(string(rune('a'+n)), 100)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		of := &request{Request: r}
		got, err := s.readBody(httptest.NewRecorder(), of, 1000)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, got)
		s.release(of)
	}
	for n, got := range kept {
		if string(got) != strings.Repeat(string(rune('a'+n)), 100) {
			t.Fatalf("body %d is now %.10q", n, got)
		}
	}
}
