package packetlog

import (
	"errors"
	"testing"
)

// TestReadOfAFileThatWasClosed is the moment between finding a segment and
// reading in it, in which another goroutine removes it.
func TestReadOfAFileThatWasClosed(t *testing.T) {
	l, err := Open(t.TempDir(), ID{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var b Batch
	l.Begin(&b)
	place := b.Add(nil, []byte("packet"))
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	s := l.holding(place)
	if err := l.Remove(s.start); err != nil {
		t.Fatal(err)
	}
	if err := s.readAt(make([]byte, 6), place); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
}
