package relaysvc

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// stream is the sending half of one listen stream.
type stream struct {
	slow  time.Duration  // for one frame
	woken chan time.Time // holds when there began to be something to read
	ended chan struct{}  // closed when over is set

	frame sync.Mutex // held while a frame is written

	mu    sync.Mutex
	over  bool       // guarded by mu, as what follows
	out   sink       // while frames may be written
	holds int        // how many decisions no frame begins before
	moved *sync.Cond // over or holds has changed; its lock is mu
}

// sink takes the frames of a stream: an answer of net/http, or a connection
// that was taken from it.
type sink interface {
	// send writes a frame, which has frameHead bytes before it and frameTail
	// after it for the use of the sink.
	send(frame []byte) error
	SetWriteDeadline(time.Time) error
	// finish ends the answer as complete.
	finish()
}

const (
	frameHead = len("00000000\r\n")
	frameTail = len("\r\n")
)

// framed returns a frame with room for a sink around it.
func framed(frame []byte) []byte {
	b := make([]byte, frameHead, frameHead+len(frame)+frameTail)
	return append(append(b, frame...), "\r\n"...)
}

func newStream(slow time.Duration) *stream {
	st := &stream{slow: slow, woken: make(chan time.Time, 1), ended: make(chan struct{})}
	st.moved = sync.NewCond(&st.mu)
	return st
}

// begin lets frames be written to out, and answers false when the stream has
// been ended before it began: the request can still be refused then.
func (st *stream) begin(out sink) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		st.out = out
	}
	return !st.over
}

// poke says that there is something to read.
func (st *stream) poke(now time.Time) {
	select {
	case st.woken <- now:
	default: // it has not looked since the last time
	}
}

// hold lets no frame begin until resume or end. One in progress goes on.
func (st *stream) hold() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.holds++
}

// resume ends a hold.
func (st *stream) resume() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.holds--
	st.moved.Broadcast()
}

// end cuts the stream off: a frame in progress is given up, and end returns
// when that is over. Nothing is written afterwards.
func (st *stream) end() {
	st.mu.Lock()
	if st.out != nil {
		_ = st.out.SetWriteDeadline(longAgo)
	}
	st.leave()
	st.mu.Unlock()
	st.frame.Lock()
	defer st.frame.Unlock()
}

// leave marks the stream as over and lets go of the connection. The caller
// holds mu.
func (st *stream) leave() {
	st.out = nil
	if !st.over {
		st.over = true
		close(st.ended)
		st.moved.Broadcast()
	}
}

// send writes one frame as framed returns it, and reports whether the stream
// goes on.
func (st *stream) send(frame []byte) bool {
	st.frame.Lock()
	defer st.frame.Unlock()
	st.mu.Lock()
	for st.holds > 0 && !st.over {
		st.moved.Wait()
	}
	out := st.out
	if out != nil {
		_ = out.SetWriteDeadline(time.Now().Add(st.slow))
	}
	st.mu.Unlock()
	return out != nil && out.send(frame) == nil
}

// hurry gives up a frame in progress. The stream then ends by itself.
func (st *stream) hurry() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.out != nil {
		_ = st.out.SetWriteDeadline(longAgo)
	}
}

// answerSink is the answer of a handler, over HTTP/2 or where the connection
// cannot be had.
type answerSink struct {
	*http.ResponseController
	w http.ResponseWriter
}

func newAnswerSink(w http.ResponseWriter) *answerSink {
	return &answerSink{http.NewResponseController(w), w}
}

func (a *answerSink) send(frame []byte) error {
	if _, err := a.w.Write(frame[frameHead : len(frame)-frameTail]); err != nil {
		return err
	}
	return a.Flush()
}

func (a *answerSink) finish() {} // the handler returns

// connSink is a connection of HTTP/1.1 without what net/http needs for one: its
// goroutine, its buffers and the header of the request, some 30 KB together.
type connSink struct {
	net.Conn
	chunked bool // not for a client of HTTP/1.0
}

func (c *connSink) send(frame []byte) error {
	if !c.chunked {
		frame = frame[frameHead : len(frame)-frameTail]
	} else {
		setChunkSize(frame)
	}
	_, err := c.Write(frame)
	return err
}

// setChunkSize makes a chunk of a frame. Its size may have leading zeros.
func setChunkSize(frame []byte) {
	const digits = "0123456789abcdef"
	size := len(frame) - frameHead - frameTail
	for i := len("00000000") - 1; i >= 0; i-- {
		frame[i] = digits[size&0xf]
		size >>= 4
	}
	copy(frame[len("00000000"):], "\r\n")
	copy(frame[len(frame)-frameTail:], "\r\n")
}

func (c *connSink) finish() {
	if c.chunked {
		_, _ = c.Write([]byte("0\r\n\r\n"))
	}
}

// takeOver takes the connection of a request of HTTP/1 and begins the answer
// on it.
func takeOver(w http.ResponseWriter, r *http.Request) (*connSink, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c := &connSink{Conn: conn, chunked: r.ProtoAtLeast(1, 1)}
	h := w.Header()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	if c.chunked {
		h.Set("Transfer-Encoding", "chunked")
	}
	head := bufio.NewWriterSize(conn, 1024)
	_, _ = head.WriteString("HTTP/1.1 " + strconv.Itoa(http.StatusOK) + " " + http.StatusText(http.StatusOK) + "\r\n")
	_ = h.Write(head)
	_, _ = head.WriteString("\r\n")
	if err := head.Flush(); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}
