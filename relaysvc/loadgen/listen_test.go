package loadgen

import (
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestListen(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{})
	l, err := Open(t.Context(), Config{URL: url, Senders: 2, Recipients: 3})
	must(t, err)
	r, err := l.Listen(t.Context(), Listening{Streams: 7, Rate: 50, Duration: 400 * time.Millisecond})
	must(t, err)
	// 7 streams of 3 recipients: two or three events for each packet.
	if r.Streams != 7 || r.Sent == 0 || r.Missing != 0 || r.Events < 2*r.Sent || r.Events > 3*r.Sent || len(r.Errors) != 0 {
		t.Errorf("%+v", r)
	}
	if r.Push.P50 <= 0 || r.Push.Max < r.Push.P50 || r.BytesPerStream != -1 {
		t.Errorf("%+v", r)
	}
	// What is queued from before counts for nothing.
	r, err = l.Listen(t.Context(), Listening{Streams: 3, Duration: 10 * time.Millisecond})
	must(t, err)
	if r.Sent != 0 || r.Events != 0 || r.Push != (Latency{}) {
		t.Errorf("%+v", r)
	}
	must(t, l.Close(t.Context()))
}

// TestStreamsThatEnd counts the streams that a relay ends.
func TestStreamsThatEnd(t *testing.T) {
	url, stop := startRelay(t, relaysvc.Limits{})
	l, err := Open(t.Context(), Config{URL: url, Recipients: 2})
	must(t, err)
	h := l.newHearing(Listening{Streams: 5})
	must(t, h.open(t.Context(), 5))
	stop()
	h.readers.Wait()
	h.close()
	r := &ListenResult{}
	h.report(r, &Result{})
	if errorsOf(r.Errors)["stream_ended"] != 5 {
		t.Errorf("%+v", r)
	}
}

func TestStreamsRefused(t *testing.T) {
	url, _ := startRelay(t, relaysvc.Limits{StreamsPerIdentity: 2})
	l, err := Open(t.Context(), Config{URL: url, Recipients: 1})
	must(t, err)
	_, err = l.Listen(t.Context(), Listening{Streams: 3, Duration: time.Second})
	wantCode(t, err, fault.RelayUnavailable)
	for _, p := range []Listening{{Duration: time.Second}, {Streams: MaxStreams + 1, Duration: time.Second}, {Streams: 1}, {Streams: 1, Duration: time.Second, Rate: -1},
		{Streams: 1, Duration: time.Hour, Rate: MaxCount}} {
		_, err := l.Listen(t.Context(), p)
		wantCode(t, err, fault.InvalidArgument)
	}
	must(t, l.Close(t.Context()))
}

// TestPush counts from the send that an event is about, not from the beginning
// of the run, an hour ago.
func TestPush(t *testing.T) {
	l := &Load{}
	l.sent.Store(7)
	h := l.newHearing(Listening{Rate: 10, Duration: time.Second})
	h.begin = h.begin.Add(-time.Hour)
	h.leaving(8)
	st := &stream{}
	for _, data := range []string{
		`{}`,
		`{"packet":{"messageId":"00000000-0000-4000-8000-000000000007"}}`, // before this run
		`{"packet":{"messageId":"00000000-0000-4000-8000-000000000008"}}`,
		`{"packet":{"messageId":"00000000-0000-4000-8000-ffffffffffff"}}`,
		`{"packet":{"messageId":"00000000-0000-4000-8000-zzzzzzzzzzzz"}}`,
		`{"packet":{"messageId":"0`,
	} {
		h.arrived(st, []byte(data))
	}
	if len(st.push) != 1 || st.push[0] <= 0 || st.push[0] > time.Minute || h.events.Load() != 1 {
		t.Errorf("%v, %d events", st.push, h.events.Load())
	}
}
