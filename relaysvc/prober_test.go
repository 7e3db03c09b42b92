package relaysvc

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// TestProber asks a store that hangs: everybody gets an answer, and the store
// one question.
func TestProber(t *testing.T) {
	var p prober
	asked, hung := 0, make(chan struct{})
	check := func() error {
		asked++
		<-hung
		return nil
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := p.ask(check).wait(impatient); fault.CodeOf(err) != fault.StorageFailed {
			t.Fatalf("got %v", err)
		}
	}
	close(hung)
	if err := p.ask(check).wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.tasks.Wait()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	p.close()
	if err := p.ask(check).wait(t.Context()); err != nil || asked != 2 {
		t.Errorf("after the end: %v, asked %d times", err, asked)
	}
	p.tasks.Wait()
}

// TestWatchedDrain drains a relay without streams. Where somebody has asked
// whether it is ready, they get the time of the spread to turn others away.
func TestWatchedDrain(t *testing.T) {
	s, err := New(Config{PublicURL: "https://relay.example", DBPath: filepath.Join(t.TempDir(), "data", "relay.db")})
	if err != nil {
		t.Fatal(err)
	}
	s.settle(t.Context(), time.Hour) // comes back
	if got := s.health(t.Context()); got != healthOK {
		t.Fatal(got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.settle(ctx, time.Hour)
	if ctx.Err() == nil {
		t.Error("the listener closes while somebody watches")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
