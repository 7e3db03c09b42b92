package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/safety"
)

func newIdentitySafetyCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "safety [PEER]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Show the words by which two people compare an identity",
		Long: `Show ten words that stand for an identity and its newest event, for you to read
to each other: your own words, or with PEER those of the log that you have pinned
for somebody. When both read the same words, you hold the same log. The words
change whenever a key does. They are no secret.

Your own words need no passphrase; no relay is asked.`,
		Example: "  ace identity safety\n  ace identity safety bob",
	}
	return a.leaf(c, 0, 1, []any{safetyAnswer{}}, func(ctx context.Context, args []string) error { return runIdentitySafety(ctx, a, args) })
}

// safetyAnswer is what two people compare.
type safetyAnswer struct {
	ACEID       string   `json:"ace_id"`
	Name        string   `json:"name"` // the local name, or what was typed for a peer
	Own         bool     `json:"own"`
	Words       []string `json:"words"`
	Fingerprint string   `json:"fingerprint"`
	KELSeq      int64    `json:"kel_seq"`
	LastEvent   string   `json:"last_event"`
	ChangedAt   int64    `json:"changed_at"` // the time of that event
}

func (r safetyAnswer) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("words", strings.Join(r.Words[:safety.Words/2], " "))
	p.row("", strings.Join(r.Words[safety.Words/2:], " "))
	p.row("fingerprint", grouped(r.Fingerprint))
	p.row("since", p.time(r.ChangedAt))
}

// grouped shows a long number in groups of eight.
func grouped(s string) string {
	var groups []string
	for len(s) > 8 {
		groups, s = append(groups, s[:8]), s[8:]
	}
	return strings.Join(append(groups, s), " ")
}

func runIdentitySafety(ctx context.Context, a *app, args []string) error {
	if len(args) == 0 {
		id, err := a.identity()
		if err != nil {
			return err
		}
		log, err := id.store.Log(a.io.Now())
		if err != nil {
			return err
		}
		return a.print(newSafetyAnswer(log, id.name, true))
	}
	return a.withPeer(ctx, a.openStore, (*session).peer, args[0], func(ctx context.Context, s *session, peer string) error {
		log, err := s.PinnedLog(ctx, peer)
		if err != nil {
			return withHint(err, "ace lookup %s fetches and pins what they publish", peer)
		}
		return a.print(newSafetyAnswer(log, args[0], false))
	})
}

func newSafetyAnswer(log *kel.State, name string, own bool) safetyAnswer {
	n := safety.Of(log.ACEID(), log.LastHash())
	return safetyAnswer{
		ACEID: log.ACEID(), Name: name, Own: own, Words: n.Words, Fingerprint: n.Fingerprint,
		KELSeq: log.Seq(), LastEvent: log.LastHash(), ChangedAt: log.LastTS(),
	}
}
