package relaysvc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// Seeded counts what [Server.Seed] stored.
type Seeded struct {
	Agents, Cards int
	// Elsewhere counts the agents whose relays, and the cards whose home, are
	// others than this relay: they are served here as they are, and whoever
	// looks them up goes there.
	Elsewhere int
}

// maxSeedLine bounds one line in bytes. A document has at most 1048576 in its
// canonical form; the rest is room for blanks and escapes.
const maxSeedLine = 2 * wire.MaxPublishedAgentBytes

// Seed stores published agents and card bundles, one JSON object a line, as a
// lookup returns them. Empty lines are skipped.
//
// Each is verified as on publication (04#verification, 04#card-record). What
// no document carries is the registration of its identity at this relay:
// whoever seeds vouches for that, so Seed is for development only. It is dated
// 0, so that any registration of the identity's own replaces it. In contrast
// to a publication, a document may name other relays than this one, no rate
// applies, and handles are not counted per day.
//
// The first line that fails ends it, and the error names the line; what stands
// before it is stored. Codes: invalid_argument (not a development relay, not
// one of the two kinds, a line over 2 MiB), storage_failed, and those of
// POST /v1/descriptor and POST /v1/card.
func (s *Server) Seed(ctx context.Context, documents io.Reader) (Seeded, error) {
	var done Seeded
	if !s.config.Development {
		return done, fault.New(fault.InvalidArgument, "seeding is for development")
	}
	now := s.config.Clock()
	lines := bufio.NewScanner(documents)
	lines.Buffer(nil, maxSeedLine)
	number := 1
	for ; lines.Scan(); number++ {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes())) // the buffer is used again
		if len(line) == 0 {
			continue
		}
		if err := s.seedLine(ctx, line, now, &done); err != nil {
			return done, fault.Wrapf(seedCode(err), err, "line %d", number)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return done, fault.New(fault.InvalidArgument, "line %d: over %d bytes", number, maxSeedLine)
	case err != nil:
		return done, fault.Wrapf(fault.StorageFailed, err, "after line %d", number-1)
	}
	return done, nil
}

// seedCode gives the refusals of the store their code, as an answer does.
func seedCode(err error) fault.Code {
	var refusal relaydb.Refusal
	if errors.As(err, &refusal) {
		return codes[refusal]
	}
	return fault.CodeOf(err)
}

func (s *Server) seedLine(ctx context.Context, line []byte, now int64, done *Seeded) error {
	v, err := wire.Parse(line, wire.MaxJSONDepth)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if _, ok := v.Get("descriptor"); ok {
		return s.seedAgent(ctx, v, now, done)
	}
	if _, ok := v.Get("card"); ok {
		return s.seedCard(ctx, v, now, done)
	}
	return fault.New(fault.InvalidArgument, "neither a published agent, {kel, descriptor}, nor a card bundle, {kel, card}")
}

func (s *Server) seedAgent(ctx context.Context, v wire.Value, now int64, done *Seeded) error {
	agent, err := descriptor.VerifyValue(v, now, s.descriptorOptions())
	if err != nil {
		return err
	}
	if err := s.vouch(ctx, agent.State()); err != nil {
		return err
	}
	if err := s.storeDescriptor(ctx, agent); err != nil {
		return err
	}
	done.Agents++
	if !slices.Contains(agent.Relays, s.audience) {
		done.Elsewhere++
	}
	return nil
}

func (s *Server) seedCard(ctx context.Context, v wire.Value, now int64, done *Seeded) error {
	bundle, err := descriptor.VerifyCardValue(v, now, s.descriptorOptions())
	if err != nil {
		return err
	}
	if err := s.vouch(ctx, bundle.State()); err != nil {
		return err
	}
	if err := s.storeCard(ctx, bundle, seedNetwork(bundle.ACEID), now); err != nil {
		return err
	}
	done.Cards++
	if bundle.Home != s.audience {
		done.Elsewhere++
	}
	return nil
}

// vouch registers the identity of a log unless it is registered already. With
// another log, its documents are refused as on publication.
func (s *Server) vouch(ctx context.Context, state *kel.State) error {
	_, record, err := s.record(ctx, state.ACEID())
	if err != nil || record != nil && record.Registered {
		return err
	}
	_, err = s.register(ctx, &relayapi.Registration{ACEID: state.ACEID(), MDigest: state.LastHash(), State: state}, seedNetwork(state.ACEID()))
	return err
}

// seedNetwork is a client network for one seeded identity, which shares its
// budgets with nobody.
func seedNetwork(aceID string) string { return "seed " + aceID }
