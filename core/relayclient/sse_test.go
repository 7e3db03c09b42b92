package relayclient

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// readEvents reads a stream to its end.
func readEvents(src io.Reader) ([]StreamEvent, error) {
	r := NewEventReader(src)
	var list []StreamEvent
	for {
		e, err := r.Next()
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

func TestEventsOfAPrefix(t *testing.T) {
	stream := "\ufeffid: 1-0\r\nevent: a\r\ndata: x\r\n\r\n:\n\ndata\ndata: é\n\nid: 2\revent: b\rdata: {}\r\r"
	whole, err := readEvents(strings.NewReader(stream))
	if err != io.EOF || len(whole) != 3 {
		t.Fatal(whole, err)
	}
	for at := range len(stream) {
		got, err := readEvents(iotest.HalfReader(strings.NewReader(stream[:at])))
		if err != io.EOF || len(got) > 0 && !reflect.DeepEqual(got, whole[:len(got)]) {
			t.Fatalf("cut at %d: %+v %v", at, got, err)
		}
	}
}

func TestEventReaderKeepsTheSourcesError(t *testing.T) {
	broken := errors.New("broken")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: x\n\ndata: y\n"), iotest.ErrReader(broken)))
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Fatal(got, err)
	}
}

func TestEventBounds(t *testing.T) {
	full := strings.Repeat("x", maxEventBytes)
	got, err := readEvents(strings.NewReader("data: " + full + "\n\n"))
	if err != io.EOF || len(got) != 1 || len(got[0].Data) != maxEventBytes {
		t.Fatal(len(got), err)
	}
	for name, stream := range map[string]string{
		"line":        "data: " + full + "x\n\n",
		"data":        "data: " + full + "\ndata\n\n",
		"no line end": ":" + full + full,
	} {
		if got, err := readEvents(strings.NewReader(stream)); len(got) != 0 || !errors.Is(err, errEventTooLong) {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
	}
}

func FuzzSSE(f *testing.F) {
	f.Add([]byte("\ufeffid: 1-0\r\nevent: catchup\r\ndata: {\"packet\":1}\r\n\r\n"))
	f.Add([]byte("data\rdata: x\r\r:hb\n\nid\x00: 1\nevent:  y\ndata:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, err := readEvents(bytes.NewReader(stream))
		if err != io.EOF {
			t.Fatal(err)
		}
		pieces, err := readEvents(iotest.OneByteReader(bytes.NewReader(stream)))
		if err != io.EOF || !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("the pieces of a stream give %+v, the whole %+v", pieces, whole)
		}
		for _, e := range whole {
			if e.Type == "" || strings.ContainsAny(e.Type+e.ID, "\r\n") || strings.Contains(e.ID, "\x00") || bytes.ContainsRune(e.Data, '\r') {
				t.Fatalf("event %+v", e)
			}
		}
	})
}
