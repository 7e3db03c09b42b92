package core

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayclient"
)

// TestPollCountsFailuresInARow: a round that succeeds begins the count anew, and
// is told of once.
func TestPollCountsFailuresInARow(t *testing.T) {
	var told []string
	p := &polling{seconds: 1, reconnect: relayclient.NewReconnect(streamStart), on: func(e Event) { told = append(told, e.Connection.State) }}
	away := &fault.Error{Code: fault.RelayUnavailable, Msg: "x", RetryAfter: 40}
	for range 2 {
		for range 9 {
			if wait, err := p.fail(away); err != nil || wait != 40 {
				t.Fatalf("wait %d: %v", wait, err)
			}
		}
		p.succeed()
		p.succeed()
	}
	if len(told) != 20 || told[8] != "reconnecting" || told[9] != "connected" || told[10] != "reconnecting" {
		t.Errorf("told %v", told)
	}
	for range 9 {
		_, _ = p.fail(away) // ten are too many
	}
	if _, err := p.fail(away); !errors.Is(err, fault.RelayUnavailable) || len(told) != 29 {
		t.Errorf("after ten in a row: %v, told %d times", err, len(told))
	}
}
