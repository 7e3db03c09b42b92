package relaysvc

import (
	"net/http"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// refusalTime is how long a client may take to read that it has too many
// requests in progress.
const refusalTime = time.Second

// multiplexed answers a request over HTTP/2, of which one connection carries
// many. Each costs as much memory as a connection of HTTP/1, until the client
// has read the answer, and so there are as many in progress as there may be
// connections.
func (s *Server) multiplexed(w http.ResponseWriter, r *http.Request, answer func() error) {
	control := http.NewResponseController(w)
	defer s.requests.Add(-1)
	var err error
	if s.requests.Add(1) > int64(s.limits().Connections) {
		_ = control.SetWriteDeadline(time.Now().Add(refusalTime))
		err = fault.New(relayapi.RateLimited, "too many requests are in progress")
	} else {
		err = answer()
	}
	if err != nil {
		s.refuse(w, r, err)
	}
	// What net/http writes after the handler is not counted here any more.
	_ = control.Flush()
}
