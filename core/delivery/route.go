package delivery

import (
	"context"
	"strings"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/store"
)

// Route names the relays by which a peer is reached, as far as the store knows
// them: peers with the same route share what becomes of its relays. It is "" when
// none is known.
func (n *Node) Route(ctx context.Context, aceID string) (route string, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		raw, err := tx.Descriptor(aceID)
		if err != nil || raw == nil {
			return err
		}
		agent, err := n.agents.read(aceID, raw, descriptor.DecodeStored)
		if err == nil {
			route = strings.Join(agent.Relays, " ")
		}
		return err
	})
	return route, err
}
