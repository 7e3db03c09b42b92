package relaysvc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// MaxChaosDelay bounds [Chaos.Delay]. It is below the time after which clients
// and the relay itself give a connection up.
const MaxChaosDelay = 30 * time.Second

// Chaos are the faults that a development relay plays, so that clients can be
// tested against them. It does what a network, a proxy or a busy relay may do
// to POST /v1/send and GET /v1/listen, and breaks no promise of the relay:
// {"ok":true} still means that the packet is queued durably.
//
// The members but the last two are probabilities.
type Chaos struct {
	// Drop breaks the connection. A send ends without an answer, half of the
	// time before the packet is looked at and half of the time after it was
	// queued. A stream does not open, or is cut at an entry: before it, or in
	// the middle of it.
	Drop float64
	// Dup sends an entry of a stream twice.
	Dup float64
	// Error refuses a send or a stream, by turns of the dice with 429
	// rate_limited and Retry-After, 500 internal_error, or the 503 and
	// Retry-After of a proxy in front of the relay.
	Error float64
	// Delay is the longest wait before a send is looked at, before a stream
	// opens and before each of its entries. Each wait is anything up to it.
	Delay time.Duration
	// Seed decides what happens: the n-th send and the n-th stream of two runs
	// with one seed meet the same faults.
	Seed uint64
}

// check refuses what is no probability and delays that nobody waits for. Code:
// invalid_argument.
func (c *Chaos) check() error {
	for _, p := range []float64{c.Drop, c.Dup, c.Error} {
		if !(p >= 0 && p <= 1) { // so that not a number is refused too
			return fault.New(fault.InvalidArgument, "chaos: %v is no probability", p)
		}
	}
	if c.Delay < 0 || c.Delay > MaxChaosDelay {
		return fault.New(fault.InvalidArgument, "chaos: a delay of %s is not within %s", c.Delay, MaxChaosDelay)
	}
	return nil
}

// The sequences of dice, so that a send does not change what streams meet.
const (
	diceOfSends = iota
	diceOfStreams
	diceKinds
)

// faults is the handler of a relay with chaos.
type faults struct {
	Chaos
	server         *Server
	sends, streams atomic.Uint64
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/send":
		f.send(w, r)
	case "GET /v1/listen":
		f.listen(w, r)
	default:
		f.server.serve(w, r)
	}
}

func (f *faults) send(w http.ResponseWriter, r *http.Request) {
	d := f.dice(diceOfSends, f.sends.Add(1))
	refused, dropped, late := d.hit(f.Error), d.hit(f.Drop), d.hit(0.5)
	f.pause(r.Context(), d)
	switch {
	case refused:
		f.refuse(w, r, d)
	case dropped && late:
		f.server.serve(&mute{w}, r)
		panic(http.ErrAbortHandler)
	case dropped:
		panic(http.ErrAbortHandler)
	default:
		f.server.serve(w, r)
	}
}

func (f *faults) listen(w http.ResponseWriter, r *http.Request) {
	d := f.dice(diceOfStreams, f.streams.Add(1))
	refused, dropped := d.hit(f.Error), d.hit(f.Drop)
	f.pause(r.Context(), d)
	switch {
	case refused:
		f.refuse(w, r, d)
		return
	case dropped:
		panic(http.ErrAbortHandler)
	}
	s := &shaky{ResponseWriter: w, faults: f, dice: d, ctx: r.Context()}
	f.server.serve(s, r)
	if s.cut {
		panic(http.ErrAbortHandler) // a handler that returns would end the stream cleanly
	}
}

// refuse answers in place of the relay.
func (f *faults) refuse(w http.ResponseWriter, r *http.Request, d dice) {
	if r.ContentLength != 0 {
		// A client that is still writing might not see the answer.
		f.server.setReadDeadline(w)
		_, _ = io.CopyN(io.Discard, r.Body, wire.MaxSendBodyBytes)
	}
	delay := int64(1 + d.IntN(3))
	switch d.IntN(3) {
	case 0:
		e := fault.New(relayapi.RateLimited, "chaos")
		e.RetryAfter = delay
		f.server.refuse(w, r, e)
	case 1:
		f.server.write(w, http.StatusInternalServerError, relayapi.ErrorBody(relayapi.InternalError, ""))
	default:
		w.Header().Set("Retry-After", strconv.FormatInt(delay, 10))
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// pause waits for a part of the longest delay. A client that is gone and a
// relay that drains end it.
func (f *faults) pause(ctx context.Context, d dice) {
	wait := time.Duration(d.Float64() * float64(f.Delay))
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-f.server.hub.drained:
	}
}

// dice decides for one send or one stream. Each throws what it needs in one
// order, whatever the probabilities are.
type dice struct{ *rand.Rand }

func (f *faults) dice(kind, n uint64) dice {
	return dice{rand.New(rand.NewPCG(f.Seed, n*diceKinds+kind))}
}

func (d dice) hit(probability float64) bool { return d.Float64() < probability }

// mute takes an answer that never leaves.
type mute struct{ http.ResponseWriter }

func (*mute) WriteHeader(int)               {}
func (*mute) Write(p []byte) (int, error)   { return len(p), nil }
func (m *mute) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// shaky is the connection of a stream. Its Write gets whole frames.
type shaky struct {
	http.ResponseWriter
	faults *faults
	dice   dice
	ctx    context.Context
	cut    bool
}

var errCut = errors.New("chaos cut the stream")

func (s *shaky) Unwrap() http.ResponseWriter { return s.ResponseWriter }

var endOfFrame = []byte("\n\n")

func (s *shaky) Write(p []byte) (int, error) {
	for frame := range bytes.SplitAfterSeq(p, endOfFrame) {
		if err := s.frame(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// frame writes one frame, or what is left of it. Only entries have an id;
// everything else passes.
func (s *shaky) frame(frame []byte) error {
	if s.cut {
		return errCut
	}
	if !bytes.HasPrefix(frame, []byte("id: ")) {
		_, err := s.ResponseWriter.Write(frame)
		return err
	}
	dropped, amid, twice := s.dice.hit(s.faults.Drop), s.dice.hit(0.5), s.dice.hit(s.faults.Dup)
	s.faults.pause(s.ctx, s.dice)
	switch {
	case dropped && amid:
		_, _ = s.ResponseWriter.Write(frame[:len(frame)/2])
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		fallthrough
	case dropped:
		s.cut = true
		return errCut
	case twice:
		frame = append(frame[:len(frame):len(frame)], frame...)
	}
	_, err := s.ResponseWriter.Write(frame)
	return err
}
