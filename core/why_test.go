package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// codes returns the codes of reasons, those that stop messages with a ! before.
func codes(reasons []core.Reason) (list []string) {
	for _, r := range reasons {
		mark := ""
		if r.Stops {
			mark = "!"
		}
		if r.Thread != "" {
			r.Code += core.ReasonCode(" " + r.Thread)
		}
		list = append(list, mark+string(r.Code))
	}
	return list
}

// TestWhy goes through what can be the matter between two agents.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name          string
		between       func(t *testing.T, r *relay, alice, bob *agent)
		offline       bool
		send, receive []string // of alice about bob
	}{
		{
			"strangers, nobody published", func(*testing.T, *relay, *agent, *agent) {}, false,
			[]string{"lookup_failed", "!never_looked_up", "!permit_missing", "card_unknown"}, []string{"!not_published", "!closed_to_strangers"},
		},
		{
			"not looked up", func(_ *testing.T, _ *relay, alice, bob *agent) { alice.publish(false); bob.publish(false) }, true,
			[]string{"!never_looked_up", "!permit_missing", "card_unknown"}, []string{"!open_to_requests"},
		},
		{
			"closed", func(_ *testing.T, _ *relay, alice, bob *agent) { alice.publish(false); bob.publish(false) }, false,
			[]string{"!permit_missing", "card_closed"}, []string{"!open_to_requests"},
		},
		{
			"a request waits", func(t *testing.T, _ *relay, alice, bob *agent) {
				connect(t, alice, bob)
			}, false,
			[]string{"!permit_missing", "card_closed"}, []string{"!open_to_requests", "request_waiting"},
		},
		{
			// Two requests of one network may wait (07#send), and a third does not.
			"a request that no relay took", func(t *testing.T, r *relay, alice, bob *agent) {
				bob.reopen(func(c *core.Config) { c.Card = open() })
				bob.publish(false)
				for range 2 {
					if _, err := newAgent(t, r, closed()).Connect(t.Context(), bob.ACEID(), profile.TextID, ""); err != nil {
						t.Error(err)
					}
				}
				if _, err := alice.Connect(t.Context(), bob.ACEID(), profile.TextID, ""); err == nil {
					t.Error("the request was taken")
				}
			}, false,
			[]string{"!permit_missing", "request_unsent"}, []string{"!permit_due"},
		},
		{
			"a log too long for strangers", func(_ *testing.T, r *relay, alice, bob *agent) {
				alice.publish(false)
				bob.publish(false)
				for len(alice.config.Identity.State().Events()) <= wire.MaxStrangerKELEvents {
					alice.delegate(r)
				}
				alice.publish(false)
			}, false,
			[]string{"!permit_missing", "card_closed", "log_too_long"}, []string{"!open_to_requests"},
		},
		{
			"friends", func(_ *testing.T, _ *relay, alice, bob *agent) { befriend(bob, alice) }, false,
			[]string{"permit_held"}, []string{"permit_issued"},
		},
		{
			"a message waits", func(t *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.send(bob, "x")
				r.stop()
			}, false,
			[]string{"lookup_failed", "permit_held", "messages_waiting"}, []string{"permit_issued"},
		},
		{
			"blocked without a relay", func(t *testing.T, _ *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.reopen(func(c *core.Config) { c.Relay = "" })
				if _, err := alice.Block(t.Context(), bob.ACEID()); err == nil {
					t.Error("registered without a relay")
				}
			}, true,
			[]string{"!blocked", "permit_held"}, []string{"!not_published", "block_unconfirmed", "!blocked"},
		},
		{
			"a stranger that is blocked", func(t *testing.T, _ *relay, alice, bob *agent) {
				alice.publish(false)
				if _, err := alice.Block(t.Context(), bob.ACEID()); err != nil {
					t.Fatal(err)
				}
			}, true,
			[]string{"!blocked", "!never_looked_up", "!permit_missing"}, []string{"!blocked"},
		},
		{
			"unblocked, but not at the relay", func(t *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.change(func(tx *store.Tx) error { return tx.SetBlock(store.Block{Peer: bob.ACEID(), Revision: 5}) })
			}, false,
			[]string{"permit_held"}, []string{"!block_unconfirmed", "permit_issued"},
		},
		{
			"a later decision at the relay", func(t *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.change(func(tx *store.Tx) error {
					return tx.SetBlock(store.Block{Peer: bob.ACEID(), Revision: 5, Settled: r.url, Superseded: true})
				})
			}, false,
			[]string{"permit_held"}, []string{"block_superseded", "permit_issued"},
		},
		{
			"forgotten", func(t *testing.T, _ *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.change(func(tx *store.Tx) error { return tx.DeleteContact(bob.ACEID()) })
			}, false,
			[]string{"permit_held"}, []string{"permit_outstanding"},
		},
		{
			"a busy thread", func(t *testing.T, _ *relay, alice, bob *agent) {
				for _, each := range []*agent{alice, bob} {
					each.reopen(func(c *core.Config) { c.Profiles = append(c.Profiles, profile.OfficialByID(profile.CommerceID)) })
				}
				befriend(bob, alice)
				rfq := wire.NewObject(wire.M("need", wire.NewString("a logo")))
				for _, m := range []core.OutMessage{
					{Type: "ace:commerce:rfq:1", ThreadID: "trade", Body: rfq}, {ThreadID: "talk", Body: profile.TextBody("x")}, {Body: profile.TextBody("x")},
				} {
					m.To = bob.ACEID()
					if _, err := alice.Enqueue(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
			}, false,
			[]string{"permit_held", "messages_waiting", "thread_busy trade"}, []string{"permit_issued", "thread_busy trade"},
		},
		{
			"new key here", func(_ *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.delegate(r)
			}, false,
			[]string{"permit_held"}, []string{"!not_published", "!permit_due"},
		},
		{
			"new key there", func(_ *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				bob.delegate(r)
				bob.publish(false)
			}, false,
			[]string{"!permit_void", "card_closed"}, []string{"permit_issued"},
		},
		{
			"the policy denies", func(_ *testing.T, _ *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.reopen(func(c *core.Config) {
					c.Policy.Rules = []policy.Rule{{Peer: bob.ACEID(), Do: policy.Deny}, {Direction: policy.In, Do: policy.Deny}}
				})
			}, false,
			[]string{"!policy_denies", "permit_held"}, []string{"!policy_denies", "permit_issued"},
		},
		{
			"the policy denies some, asks about others, and allows the rest", func(_ *testing.T, _ *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.reopen(func(c *core.Config) {
					c.Profiles = append(c.Profiles, profile.OfficialByID(profile.CommerceID))
					c.Policy.Rules = []policy.Rule{
						{Type: "ace:commerce:*", Peer: bob.ACEID(), Do: policy.Deny},
						{Direction: policy.In, Type: "ace:text:1", Do: policy.Deny},
						{Peer: "ace:sha256:" + strings.Repeat("0", 64), Do: policy.Deny},
						{Do: policy.Ask},
					}
				})
			}, false,
			[]string{"policy_asks", "policy_denies", "permit_held"}, []string{"policy_denies", "permit_issued"},
		},
		{
			"the policy is about nobody", func(_ *testing.T, _ *relay, alice, bob *agent) {
				befriend(bob, alice)
				alice.reopen(func(c *core.Config) { c.Policy.Rules = []policy.Rule{{Peer: "nobody", Do: policy.Allow}} })
			}, false,
			[]string{"!policy_unclear", "permit_held"}, []string{"!policy_unclear", "permit_issued"},
		},
		{
			"a month later", func(_ *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				r.ahead.Add(wire.MaxPermitLifetime)
			}, false,
			[]string{"lookup_failed", "!descriptor_stale", "!permit_ended", "card_unknown"}, []string{"!not_published", "!permit_due"},
		},
		{
			"a year later", func(_ *testing.T, r *relay, alice, bob *agent) {
				befriend(bob, alice)
				r.ahead.Add(wire.MaxSigningKeyLifetime)
			}, true,
			[]string{"!own_key_ended", "!peer_key_ended", "!permit_ended", "card_unknown"}, []string{"!own_key_ended", "!not_published", "!permit_due"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t)
			alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
			c.between(t, r, alice, bob)
			y, err := alice.Why(t.Context(), bob.ACEID(), core.WhyOptions{Offline: c.offline})
			if err != nil {
				t.Fatal(err)
			}
			if got := codes(y.Send); !slices.Equal(got, c.send) {
				t.Errorf("send: %v, want %v", got, c.send)
			}
			if got := codes(y.Receive); !slices.Equal(got, c.receive) {
				t.Errorf("receive: %v, want %v", got, c.receive)
			}
			stops := func(list []string) bool {
				return slices.ContainsFunc(list, func(s string) bool { return s[0] == '!' })
			}
			if y.CanSend == stops(c.send) || y.CanReceive == stops(c.receive) {
				t.Errorf("can send %v, can receive %v", y.CanSend, y.CanReceive)
			}
		})
	}
}

// connect makes bob ask alice, who has not decided.
func connect(t *testing.T, alice, bob *agent) {
	t.Helper()
	alice.publish(false)
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, ""); err != nil {
		t.Fatal(err)
	}
	alice.pull()
	y, err := bob.Why(t.Context(), alice.ACEID(), core.WhyOptions{Offline: true})
	if err != nil || !slices.Equal(codes(y.Send), []string{"!permit_missing", "request_sent"}) || !slices.Equal(codes(y.Receive), []string{"permit_issued"}) {
		t.Errorf("the asking side: %+v, %v", y, err)
	}
}
