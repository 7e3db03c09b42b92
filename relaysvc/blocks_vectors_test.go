package relaysvc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc"
)

// The traces of blocks-admission.json that are a relay's (07#blocks) run against
// a real one; those of an endpoint run in core/delivery.
func TestBlockVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/logic/blocks-admission.json")
	must(t, err)
	var file struct {
		Traces []struct {
			Name   string
			Config struct {
				Role string
				Cap  int
			}
			Steps []blockStep
		}
	}
	must(t, json.Unmarshal(data, &file))
	ran := 0
	for _, trace := range file.Traces {
		if trace.Config.Role != "relay" {
			continue
		}
		ran++
		t.Run(trace.Name, func(t *testing.T) {
			r := start(t, func(c *relaysvc.Config) {
				c.Limits.BlockPeers, c.Limits.StrangersFrom = trace.Config.Cap, strangersFrom
			})
			p := &blockPlay{relay: r, agents: map[string]*agent{}, ids: map[string]string{}}
			for i, step := range trace.Steps {
				p.step(t, fmt.Sprintf("step %d", i), step)
			}
		})
	}
	if ran == 0 {
		t.Fatal("no trace of a relay")
	}
}

type blockStep struct {
	Op           string
	Caller, Peer string
	Blocked      bool
	Revision     int64
	Expect       struct {
		Status  int
		Error   *string
		Blocked bool
	}
}

// blockPlay is a trace in progress. Callers are registered identities; of a peer
// that is none, only the name matters.
type blockPlay struct {
	*relay
	agents map[string]*agent
	ids    map[string]string
}

func (p *blockPlay) caller(name string) *agent {
	if p.agents[name] == nil {
		p.agents[name] = p.registered()
	}
	return p.agents[name]
}

func (p *blockPlay) peer(name string) string {
	if name == "a" || name == "b" {
		return p.caller(name).aceID()
	}
	if p.ids[name] == "" {
		p.ids[name] = strangerID()
	}
	return p.ids[name]
}

func (p *blockPlay) step(t *testing.T, where string, s blockStep) {
	t.Helper()
	caller, peer := p.caller(s.Caller), p.peer(s.Peer)
	switch s.Op {
	case "post_block":
		want := "ok"
		if s.Expect.Error != nil {
			want = *s.Expect.Error
		}
		if got := caller.block(peer, s.Blocked, s.Revision); got.status != s.Expect.Status || got.outcome(t) != want {
			t.Fatalf("%s: %d %s, want %d %s", where, got.status, got.body, s.Expect.Status, want)
		}
	case "is_blocked":
		got := p.send(caller.packet(peer), caller.permit(peer)).outcome(t)
		if want := map[bool]string{true: "not_permitted", false: "ok"}[s.Expect.Blocked]; got != want {
			t.Fatalf("%s: a packet of %s is answered with %s, want %s", where, s.Peer, got, want)
		}
	default:
		t.Fatalf("%s: unknown op %q", where, s.Op)
	}
}
