package core

import (
	"context"
	"sync"
)

// defaultPeersAtOnce is how many peers are served at the same time: relays are
// far away, and one that does not answer must not hold up the others.
const defaultPeersAtOnce = 8

// eachPeer calls do for each of the peers, several at a time. The first error
// ends it and is returned, as is that of ctx.
func (e *Endpoint) eachPeer(ctx context.Context, peers []string, do func(ctx context.Context, peer string) error) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(e.config.PeersAtOnce, len(peers)) {
		workers.Go(func() {
			for peer := range next {
				if err := do(working, peer); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, peer := range peers {
		select {
		case next <- peer:
		case <-working.Done():
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return context.Cause(working)
}
