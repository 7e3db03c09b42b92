package relaydb

import "context"

// readers are the connections that read queues, for as many goroutines at a
// time.
type readers struct {
	path string
	idle chan *conn // nil for one that is not open yet
}

func newReaders(path string) *readers {
	r := &readers{path: path, idle: make(chan *conn, readConnections)}
	for range readConnections {
		r.idle <- nil
	}
	return r
}

// take waits for a connection.
func (r *readers) take(ctx context.Context) (*conn, error) {
	select {
	case c, ok := <-r.idle:
		if !ok {
			return nil, errClosed
		}
		if c != nil {
			return c, nil
		}
		c, err := openConn(r.path, append(connPragmas, "query_only(1)", readerCache)...)
		if err != nil {
			r.idle <- nil
		}
		return c, err
	case <-ctx.Done():
		return nil, storage(ctx.Err())
	}
}

func (r *readers) give(c *conn) { r.idle <- c }

// close waits for the connections that are in use.
func (r *readers) close() {
	for range readConnections {
		if c := <-r.idle; c != nil {
			c.Close()
		}
	}
	close(r.idle)
}
