package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// stream is one open listen stream. Its reader alone touches push and ended
// until it is closed.
type stream struct {
	conn  *conn
	body  io.ReadCloser
	push  []time.Duration // of each event
	ended bool            // by the relay
}

// openStream opens a stream of a recipient and returns when the relay has
// accepted it. It ends when ctx does. The codes are those of 07#client-rules.
func (l *Load) openStream(ctx context.Context, r *recipient) (*stream, error) {
	request, err := l.listenRequest(r)
	if err != nil {
		return nil, err
	}
	c, err := l.target.dial(ctx)
	if err != nil {
		return nil, err
	}
	st := &stream{conn: c}
	if err := st.begin(request); err != nil {
		c.close()
		return nil, err
	}
	return st, nil
}

// listenRequest is a GET /v1/listen from the start of the queue.
func (l *Load) listenRequest(r *recipient) ([]byte, error) {
	h, err := relayapi.SignHeaders(r.id, kel.ActionListen, l.target.url, suite.NewNonce(), relayapi.ListenPayload(relayapi.Dash), l.clock())
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	h.Apply(header)
	var text strings.Builder
	fmt.Fprintf(&text, "GET %s/v1/listen?since=- HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n", l.target.prefix, l.target.host, relayapi.MediaStream)
	_ = header.Write(&text) // a builder takes everything
	text.WriteString("\r\n")
	return []byte(text.String()), nil
}

func (st *stream) begin(request []byte) error {
	_ = st.conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := st.conn.Write(request); err != nil {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	resp, err := http.ReadResponse(st.conn.in, nil)
	if err != nil {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return relayclient.ResponseError(resp.StatusCode, body, resp.Header.Get("Retry-After"))
	}
	st.body = resp.Body
	return fault.Wrap(fault.RelayUnavailable, st.conn.SetDeadline(time.Time{}))
}

const (
	messageIDLength = 36
	firstLine       = 512 // bytes of memory for a line, until one is longer
	maxLine         = wire.MaxPacketBytes + 4096
)

var dataField = []byte("data:")

// read takes events in until the stream ends.
func (st *stream) read(h *hearing) {
	lines := bufio.NewScanner(st.body)
	lines.Buffer(make([]byte, firstLine), maxLine)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), dataField); ok {
			h.arrived(st, data)
		}
	}
	st.ended = !h.ending.Load()
}
