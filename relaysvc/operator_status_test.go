package relaysvc_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// TestStatusOfAStoreThatHangs asks a relay whose writer waits for good: the
// operator is told what does not answer, and the rest.
func TestStatusOfAStoreThatHangs(t *testing.T) {
	r := start(t, nil)
	db, err := sql.Open("sqlite", "file:"+r.path+"?_txlock=immediate")
	must(t, err)
	defer db.Close()
	other, err := db.Begin() // while it lasts, nothing else is written
	must(t, err)
	defer other.Rollback()

	ask := func(patience time.Duration) relaysvc.Status {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer := make(chan relaysvc.Status, 1)
		go func() { answer <- r.server.Operator().Status(ctx) }()
		select {
		case s := <-answer:
			return s
		case <-time.After(patience + 5*time.Second):
			t.Fatal("the operator waits as long as the store does")
			return relaysvc.Status{}
		}
	}
	if s := ask(50 * time.Millisecond); fault.CodeOf(s.Failure) != fault.StorageFailed || s.PublicURL != r.url || s.Now != epoch {
		t.Errorf("status %+v", s)
	}
	must(t, other.Rollback())
	if s := ask(patience); s.Failure != nil {
		t.Errorf("afterwards: %v", s.Failure)
	}
}
