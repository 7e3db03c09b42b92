package cli

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core"
)

// TestListenFollowsSettings: what another command says of the identity beside a
// listener is what the listener's upkeep publishes, and holds for what it receives.
// It went on with the settings of its start, and opened a card again that had been
// closed.
func TestListenFollowsSettings(t *testing.T) {
	p := newPair(t)
	l := p.listen(nil)
	l.prints(`"event":"upkeep"`)
	p.must("--as", "bob", "card", "set", "--contact", "closed", "--no-publish")
	l.prints(`"state":"reconnecting","in_s":0,"reason":"another command has changed the settings"`)
	l.prints(`"event":"upkeep","published":true,"registered":null,"descriptor":false,"card":true`)
	if got := p.must("--as", "alice", "card", "show", p.bob, "--jq", ".card.contact"); got != "closed" {
		t.Errorf("the card of bob is %s", got)
	}

	// A profile that is enabled beside it is one of those that it takes.
	p.must("--as", "bob", "profile", "install", "commerce")
	l.prints(`"descriptor":true`)
	p.must("--as", "alice", "profile", "install", "commerce")
	p.must("--as", "alice", "send", p.bob, "--type", "rfq", "--set", "need=a logo")
	l.prints(`"event":"message".*"type":"ace:commerce:rfq:1"`)
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
}

// TestHandlerChangesSettings: a command that changes the settings of the listener
// that runs it has its time, and messages are received meanwhile.
func TestHandlerChangesSettings(t *testing.T) {
	p := newPair(t)
	l := p.listen(nil, append([]string{"--exec"}, p.script(`ace card set --description "$(cat)" --no-publish >&2
		sleep 2; echo $ACE_ATTEMPT >>log; until test -e go; do sleep 0.02; done`)...)...)
	p.send("first")
	p.eventually("the command has changed them a while ago", func() bool { return p.file("log") == "1\n" })
	p.send("second")
	l.prints(`"message":"second"`)
	mustWrite(t, p.path("go"), "")
	p.eventually("both are handled", func() bool { return p.unhandled() == "" })
	if got := p.file("log"); got != "1\n1\n" {
		t.Errorf("attempts: %q", got)
	}
	l.prints("another command has changed the settings")
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
}

// TestListenLosesItsRole: whoever receives while a listener opens its identity
// again has the role for as long as that takes, and the listener goes on then.
func TestListenLosesItsRole(t *testing.T) {
	p := newPair(t)
	l := p.listen(nil)
	store := filepath.Join(p.dir, ".local/share/ace/identities/bob", storeFile)
	change := func() { p.must("--as", "bob", "card", "set", "--no-publish", "--description", time.Now().String()) }
	change()
	var release func() error
	p.eventually("the role is free for a moment", func() bool {
		for begun := time.Now(); time.Since(begun) < 3*time.Second; {
			var err error
			if release, err = core.LockReceive(store, "test", time.Now().Unix()); err == nil {
				return true
			}
		}
		change()
		return false
	})
	l.prints(`"reconnecting","in_s":1,"reason":"another process holds`)
	must(t, release())
	p.send("there")
	l.prints(`"message":"there"`)
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
}
