package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
)

// TestListenBehindTheEndOfTheKey: a listener whose signing key has ended tells of
// it, and goes on by itself once another process has delegated to a new one.
func TestListenBehindTheEndOfTheKey(t *testing.T) {
	p := newPair(t)
	p.must("--as", "bob", "identity", "delegate", "--not-after", "10d")
	p.must("--as", "bob", "maintain")
	p.must("--as", "alice", "pull")

	ctx, cancel := context.WithCancel(t.Context())
	o := p.io("")
	out, said := &lockedBuffer{}, &lockedBuffer{}
	o.Out, o.Err = out, said
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"--as", "bob", "listen", "--json", "--forever"}, o) }()
	sees := func(b *lockedBuffer, want string) {
		t.Helper()
		for until := time.Now().Add(40 * time.Second); !strings.Contains(b.String(), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("no %s\n%s\n%s", want, out, said)
			}
		}
	}
	sees(out, `"event":"ready"`)
	sees(said, "the signing key ends")

	p.ahead.Store(11 * day)
	p.must("--as", "bob", "identity", "delegate", "--no-publish") // the Date of the relay is that of the system
	p.must("--as", "bob", "publish")
	p.must("--as", "alice", "publish")
	p.must("--as", "alice", "permit", "renew", p.bob) // hers is void as well
	sees(out, "another process has replaced the signing key")
	// With the next upkeep, or with the receipt of what alice has sent.
	p.eventually("alice has a permit by the new key", func() bool {
		p.must("--as", "alice", "pull")
		return p.must("--as", "alice", "permit", "list", "--jq", `.[] | select(.direction == "held") | .valid`) == "true"
	})
	p.send("there")
	sees(out, `"message":"there"`)
	cancel()
	<-ended
}

func TestPasses(t *testing.T) {
	clock := fault.New(fault.RelayRejected, "x")
	clock.Remote = string(fault.StaleTimestamp)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fault.New(fault.RelayUnavailable, "x"), true},
		{clock, true},
		{fault.Wrap(fault.IdentityUnavailable, fmt.Errorf("%w at 5", kel.ErrDelegationEnded)), true},
		{fault.New(fault.IdentityUnavailable, "x"), false},
		{fault.New(fault.RelayRejected, "x"), false},
		{fault.New(fault.NotRegistered, "x"), false},
		{fault.New(fault.StorageFailed, "x"), false},
	} {
		if got := passes(c.err); got != c.want {
			t.Errorf("%v passes: %t", c.err, got)
		}
	}
}
