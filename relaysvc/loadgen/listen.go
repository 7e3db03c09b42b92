package loadgen

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// MaxStreams bounds the listen streams of one run.
const MaxStreams = 20_000

// Listening says how many streams are open and what they get.
type Listening struct {
	Streams int // 1 to MaxStreams, spread over the recipients
	// Rate is the number of packets a second that are sent to the recipients
	// meanwhile. 0: none, and the streams are idle.
	Rate float64
	// Duration is how long the streams stay open once all are, up to
	// MaxDuration.
	Duration time.Duration
	// PID is the relay's process on this machine, whose memory is measured, or
	// 0.
	PID int
}

func (p *Listening) check() error {
	if p.Streams < 1 || p.Streams > MaxStreams {
		return fault.New(fault.InvalidArgument, "%d streams, outside [1, %d]", p.Streams, MaxStreams)
	}
	pace := Pace{Clients: 1, Duration: p.Duration, Rate: p.Rate}
	if err := pace.check(); err != nil {
		return err
	}
	// When each send left is kept until its events have come.
	if sends := p.Rate * p.Duration.Seconds(); sends > MaxCount {
		return fault.New(fault.InvalidArgument, "%.0f sends, more than %d", sends, MaxCount)
	}
	return nil
}

// ListenResult is what the streams got.
type ListenResult struct {
	Streams int           // that were open
	Opening time.Duration // of all of them, a few at a time
	Sent    int64         // packets that the relay accepted
	Events  int64         // that arrived; a packet is one on each of its recipient's streams
	Missing int64         // events that did not arrive
	Push    Latency       // from before the send to the event
	Errors  []ErrorCount  // of the sends, and "stream_ended"
	// BytesPerStream is by how much the memory of the relay's process grew
	// with each stream, at the end of the run. It is -1 when it is not known,
	// and when packets were sent, which need memory as well.
	BytesPerStream int64
	// ProcessCPU is the CPU time in seconds of that process while all streams
	// were open, or -1.
	ProcessCPU float64
}

// Listen opens listen streams and measures what arrives on them. Codes:
// invalid_argument, and those of 07#client-rules when not all streams open.
func (l *Load) Listen(ctx context.Context, p Listening) (*ListenResult, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	h := l.newHearing(p)
	defer h.close()
	// The relay keeps something for each identity. That is not the streams'.
	if err := h.open(ctx, len(l.recipients)); err != nil {
		return nil, err
	}
	h.close()
	resident := residentBytes(p.PID)

	begin := time.Now()
	h = l.newHearing(p)
	if err := h.open(ctx, p.Streams); err != nil {
		return nil, err
	}
	r := &ListenResult{Streams: p.Streams, Opening: time.Since(begin), BytesPerStream: -1}
	before := processCPU(p.PID)
	sends, err := h.feed(ctx, p)
	if err != nil {
		return nil, err
	}
	r.ProcessCPU = grown(before, processCPU(p.PID))
	if now := residentBytes(p.PID); p.Rate == 0 && now >= 0 && resident >= 0 {
		r.BytesPerStream = (now - resident) / int64(p.Streams)
	}
	h.settle(ctx)
	h.close()
	h.report(r, sends)
	return r, nil
}

// hearing is the streams of one run and what has arrived on them.
type hearing struct {
	load     *Load
	begin    time.Time
	first    int64          // number of the first send
	left     []atomic.Int64 // when each send left, in nanoseconds after begin
	streams  []*stream      // nil where one failed to open
	of       []atomic.Int64 // streams of each recipient
	sent     atomic.Int64   // packets that were accepted
	expected atomic.Int64   // events
	events   atomic.Int64
	ending   atomic.Bool
	readers  sync.WaitGroup
}

func (l *Load) newHearing(p Listening) *hearing {
	sends := int(p.Rate*p.Duration.Seconds()) + 2*len(l.senders) + 1
	return &hearing{
		load: l, begin: time.Now(), first: l.sent.Load() + 1,
		left: make([]atomic.Int64, sends), of: make([]atomic.Int64, len(l.recipients)),
	}
}

// open opens n streams. Each is read by a goroutine that close waits for.
func (h *hearing) open(ctx context.Context, n int) error {
	h.streams = make([]*stream, n)
	return each(ctx, n, func(_ context.Context, i int) error {
		to := i % len(h.load.recipients)
		st, err := h.load.openStream(ctx, h.load.recipients[to])
		if err != nil {
			return err
		}
		h.streams[i] = st
		h.of[to].Add(1)
		h.readers.Go(func() { st.read(h) })
		return nil
	})
}

// feed sends packets for the time of the run, or lets it pass.
func (h *hearing) feed(ctx context.Context, p Listening) (*Result, error) {
	if p.Rate == 0 {
		wait(ctx, time.Now().Add(p.Duration))
		return &Result{}, nil
	}
	clients := make([]*client, len(h.load.senders))
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	return Run(ctx, Pace{Clients: len(clients), Duration: p.Duration, Rate: p.Rate}, func(i int) func() error {
		c := &client{load: h.load, lanes: h.load.senders[i], leaving: h.leaving, accepted: h.accepted}
		clients[i] = c
		return func() error { return c.send(ctx) }
	})
}

func (h *hearing) leaving(n int64) {
	if i := n - h.first; i < int64(len(h.left)) {
		h.left[i].Store(int64(time.Since(h.begin)))
	}
}

func (h *hearing) accepted(l *lane) {
	h.sent.Add(1)
	h.expected.Add(h.of[l.recipient].Load())
}

// settleTime is how long events may take after the last send.
const settleTime = 3 * time.Second

// settle waits for the events that are still to come.
func (h *hearing) settle(ctx context.Context) {
	for until := time.Now().Add(settleTime); h.events.Load() < h.expected.Load() && time.Now().Before(until); {
		if !wait(ctx, time.Now().Add(10*time.Millisecond)) {
			return
		}
	}
}

func (h *hearing) close() {
	h.ending.Store(true)
	for _, st := range h.streams {
		if st != nil {
			st.conn.close()
		}
	}
	h.readers.Wait()
}

func (h *hearing) report(r *ListenResult, sends *Result) {
	var push []time.Duration
	var ended int64
	for _, st := range h.streams {
		push = append(push, st.push...)
		if st.ended {
			ended++
		}
	}
	r.Push, r.Sent, r.Events = latencyOf(push), h.sent.Load(), h.events.Load()
	r.Missing = max(0, h.expected.Load()-r.Events)
	r.Errors = append([]ErrorCount{}, sends.Errors...)
	if ended > 0 {
		r.Errors = append(r.Errors, ErrorCount{"stream_ended", ended})
	}
}

var messageIDKey = []byte(`"messageId":"`)

// arrived takes the data of one event in.
func (h *hearing) arrived(st *stream, data []byte) {
	now := time.Since(h.begin)
	_, id, ok := bytes.Cut(data, messageIDKey)
	if !ok || len(id) < messageIDLength {
		return // connected has none
	}
	n, err := strconv.ParseInt(string(id[messageIDLength-counterDigits:messageIDLength]), 16, 64)
	if i := n - h.first; err == nil && i >= 0 && i < int64(len(h.left)) {
		st.push = append(st.push, now-time.Duration(h.left[i].Load()))
		h.events.Add(1)
	}
}
