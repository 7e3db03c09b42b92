package relaydb

import "github.com/ace-toolkit/ace/core/sqlconn"

// conn is a connection of one of the few goroutines that have one to
// themselves, with the room that reading a queue needs.
type conn struct {
	*sqlconn.Conn
	found  []located // by a look at a queue
	packet []byte    // of the packet log
}

// openConn opens a connection to the file at path and runs the pragmas.
func openConn(path string, pragmas ...string) (*conn, error) {
	c, err := sqlconn.Open(sqlconn.FileURI(path), storage, pragmas...)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}
