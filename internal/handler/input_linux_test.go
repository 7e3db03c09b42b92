package handler

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core"
)

// TestInputIsWhole: a run reads its message to the end although the program that
// started it can write no more. The run stops that program while it reads.
func TestInputIsWhole(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "a1")
	message := bytes.Repeat([]byte("x"), 1<<20) // more than a pipe takes
	results := p.once(`kill -STOP $PPID; timeout 5 cat >got; kill -CONT $PPID`, 1, func(c *Config) {
		c.Input = func(core.Message) []byte { return message }
	})
	if got := p.file("got"); got != string(message) || !results[0].Handled {
		t.Errorf("read %d bytes of %d: %+v", len(got), len(message), results[0].Handling)
	}
}
