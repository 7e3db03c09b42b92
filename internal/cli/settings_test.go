package cli

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// Two commands at once changed the settings of one identity, and one change was
// lost: each writes the whole file.
func TestSettingsChangedAtOnce(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--name", "alice")
	const each = 8
	var wait sync.WaitGroup
	for n := range each {
		wait.Go(func() {
			a := &app{io: s.io("")}
			id, err := a.openIdentity("alice")
			if err == nil {
				err = a.changeSettings(id, func(s *settings) error {
					s.Tags = append(s.Tags, fmt.Sprintf("t%d", n))
					return nil
				})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	a := &app{io: s.io("")}
	id, err := a.openIdentity("alice")
	if err != nil || len(id.settings.Tags) != each {
		t.Errorf("%d of %d changes are kept: %v", len(id.settings.Tags), each, err)
	}
	refused := errors.New("refused")
	err = a.changeSettings(id, func(s *settings) error {
		s.Tags = nil
		return refused
	})
	if again, _ := readSettings(id.store.Dir()); !errors.Is(err, refused) || len(again.Tags) != each || len(id.settings.Tags) != each {
		t.Errorf("a refused change: %v, %d tags", err, len(again.Tags))
	}
}
