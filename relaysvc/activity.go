package relaysvc

import "context"

// Activity says in four numbers what a relay does, and of nobody.
type Activity struct {
	Sends   int // accepted and queued since the start
	Streams int // open
	Agents  int // registered
	Queued  int // entries that wait for their recipients
}

// Activity returns what the relay does now. It counts what is stored: it is
// made for development. Code: storage_failed.
func (s *Server) Activity(ctx context.Context) (Activity, error) {
	a := Activity{Sends: int(s.metrics.sends[sendQueued].value()), Streams: s.hub.count()}
	var err error
	a.Agents, a.Queued, err = s.db.Totals(ctx)
	return a, err
}
