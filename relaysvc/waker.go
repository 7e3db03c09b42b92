package relaysvc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/dial"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

const (
	// maxNoted bounds the recipients noted between two looks at the store. When
	// there are more, the store is asked for all of them.
	maxNoted = 1 << 16
	// noteRest is the pause after a look at the store for those noted. Under
	// load, whoever is noted meanwhile is one look together, and asked for once,
	// where each send would be one. A wake that comes so much later wakes no
	// endpoint noticeably later.
	noteRest = 100 * time.Millisecond
	// disarmBatch bounds the registrations that one transaction disarms.
	disarmBatch = 256
	// wakesAtOnce bounds the wakes that are being sent.
	wakesAtOnce = 32
	// wakeRetry is the pause before the second and last attempt of a wake.
	wakeRetry = time.Second
	// wakePatience bounds the sleep until a wake that is due later: the clock
	// may be set meanwhile. It is also the pause after the store has failed.
	wakePatience = 30 * time.Second
)

// waker sends the wakes of 07#wake-hints in the background. A send only notes
// its recipient here, and that after its answer: whether there is a
// registration is asked later and changes nothing for the sender. What is due
// is in the store, so that deferring it and a restart lose none.
type waker struct {
	db        *relaydb.DB
	clock     func() int64
	interval  int64 // least seconds between two wakes of one identity
	timeout   time.Duration
	listening func(aceID string) bool
	unwoken   func(ctx context.Context, aceIDs []string, now int64) ([]string, error)
	client    *http.Client
	log       *slog.Logger
	results   *[outcomes]counter

	changed  chan struct{} // holds a token when somebody was noted
	disarmed chan struct{} // holds a token when wakes have become due

	mu    sync.Mutex
	noted map[string]bool // recipients of new entries; guarded by mu, as what follows
	all   bool            // instead of noted: whoever may be
}

func newWaker(c Config, db *relaydb.DB, listening func(string) bool, log *slog.Logger, results *[outcomes]counter) *waker {
	return &waker{
		db:        db,
		clock:     c.Clock,
		interval:  int64(c.Timeouts.WakeInterval / time.Second),
		timeout:   c.Timeouts.Wake,
		listening: listening,
		unwoken:   db.Unwoken,
		client:    newWakeClient(c),
		log:       log,
		results:   results,
		changed:   make(chan struct{}, 1),
		disarmed:  make(chan struct{}, 1),
		noted:     map[string]bool{},
		// Entries that were queued right before the relay ended.
		all: true,
	}
}

// newWakeClient connects to addresses that are not blocked, and follows no
// redirect.
func newWakeClient(c Config) *http.Client {
	dialer := &dial.Dialer{Resolve: dial.SystemResolver, Allowed: relayapi.Unblocked(c.urls())}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // it would resolve the host itself, out of reach of the policy
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    wakesAtOnce,
			IdleConnTimeout:        wakePatience,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// note tells the waker that an entry was queued for an identity. It waits for
// nothing.
func (w *waker) note(aceID string) {
	if w == nil || w.listening(aceID) {
		return
	}
	w.mu.Lock()
	if len(w.noted) < maxNoted {
		w.noted[aceID] = true
	} else {
		w.all = true
	}
	w.mu.Unlock()
	leaveToken(w.changed)
}

// leaveToken has whoever takes tokens from c look once more.
func leaveToken(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns the recipients noted since the last call, or whether to look at
// all.
func (w *waker) take() (noted []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	noted, all = slices.Collect(maps.Keys(w.noted)), w.all
	clear(w.noted)
	w.all = false
	return noted, all
}

// run sends wakes until ctx ends. A request that is then in progress is given
// up, and its wake is still due when the relay starts again.
func (w *waker) run(ctx context.Context) {
	var sending sync.WaitGroup
	defer w.client.CloseIdleConnections()
	defer sending.Wait()
	sending.Go(func() { w.watch(ctx) })
	inFlight, sent := map[int64]bool{}, make(chan int64, wakesAtOnce)
	for {
		pause := wakePatience
		if due, err := w.due(ctx, inFlight); err != nil {
			w.failed(ctx, err)
		} else {
			pause = w.start(ctx, due, inFlight, sent, &sending)
		}
		timer := time.NewTimer(pause)
		select {
		case key := <-sent:
			delete(inFlight, key)
		case <-w.disarmed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// watch makes wakes due for those noted until ctx ends. It rests after each look
// at the store.
func (w *waker) watch(ctx context.Context) {
	for {
		if err := w.disarm(ctx); err != nil {
			w.failed(ctx, err)
		}
		if !sleep(ctx, noteRest) {
			return
		}
		timer := time.NewTimer(wakePatience)
		select {
		case <-w.changed:
		case <-timer.C: // what a failure has left to look at
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// failed looks at everything again later.
func (w *waker) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.log.Error("wakes failed", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = true
}

// disarm makes a wake due for each recipient that is to be woken.
func (w *waker) disarm(ctx context.Context) error {
	noted, all := w.take()
	if all {
		noted = nil
	} else if len(noted) == 0 {
		return nil
	}
	now := w.clock()
	unwoken, err := w.unwoken(ctx, noted, now)
	if err != nil {
		return err
	}
	unwoken = slices.DeleteFunc(unwoken, w.listening)
	if len(unwoken) == 0 {
		return nil
	}
	defer leaveToken(w.disarmed)
	for batch := range slices.Chunk(unwoken, disarmBatch) {
		if err := w.db.Disarm(ctx, batch, now, w.interval); err != nil {
			return err
		}
	}
	return nil
}

// due returns the next wakes that are not being sent.
func (w *waker) due(ctx context.Context, inFlight map[int64]bool) ([]relaydb.Wake, error) {
	due, err := w.db.DueWakes(ctx, w.clock(), int64(wakesAtOnce+len(inFlight)))
	return slices.DeleteFunc(due, func(wake relaydb.Wake) bool { return inFlight[wake.Key()] }), err
}

// start sends what is due, as far as there is room, and returns the time until
// the next one is.
func (w *waker) start(ctx context.Context, due []relaydb.Wake, inFlight map[int64]bool, sent chan<- int64, sending *sync.WaitGroup) time.Duration {
	now := w.clock()
	for _, wake := range due {
		if len(inFlight) == wakesAtOnce {
			break
		}
		if wait := wake.DueAt - now; wait > 0 {
			return min(time.Duration(wait)*time.Second, wakePatience)
		}
		inFlight[wake.Key()] = true
		sending.Go(func() {
			w.send(ctx, wake)
			sent <- wake.Key()
		})
	}
	return wakePatience
}

// send sends one wake, twice at most, and notes what came of it.
func (w *waker) send(ctx context.Context, wake relaydb.Wake) {
	at := w.clock()
	status, err := w.post(ctx, wake)
	if again(status, err) && sleep(ctx, wakeRetry) {
		status, err = w.post(ctx, wake)
	}
	if err != nil && ctx.Err() != nil {
		return
	}
	if err := w.settle(context.WithoutCancel(ctx), wake, status, at); err != nil {
		w.failed(ctx, err)
		sleep(ctx, wakePatience) // or it would be sent again at once
	}
	result := outcomeFailed
	if err == nil && status/100 == 2 {
		result = outcomeOK
	}
	w.results[result].Inc()
}

// again reports whether an attempt that ended so may succeed the next time.
func again(status int, err error) bool {
	return err != nil && fault.CodeOf(err) != fault.BlockedAddress || status >= http.StatusInternalServerError
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle notes the status with which a wake that was sent at a time ended.
func (w *waker) settle(ctx context.Context, wake relaydb.Wake, status int, at int64) error {
	if status == http.StatusNotFound || status == http.StatusGone {
		if err := w.db.ForgetWake(ctx, wake); err != nil {
			return err
		}
	}
	return w.db.WakeSent(ctx, wake, at, w.interval)
}

// maxWakeAnswer bounds what is read of a gateway's answer, which says nothing.
const maxWakeAnswer = 4 << 10

// post makes the request of 07#wake-hints and returns its status.
func (w *waker) post(ctx context.Context, wake relaydb.Wake) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	body := wire.NewObject(wire.M("token", wire.NewString(wake.Token))).Canonical()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, wake.Gateway, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", relayapi.MediaJSON)
	r.Header.Set("User-Agent", "") // none: nothing else is sent
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxWakeAnswer)
	return resp.StatusCode, nil
}

// listening reports whether an identity has a listen stream open.
func (h *hub) listening(aceID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[aceID]
	return t != nil && len(t.streams) > 0
}
