package core_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

// deaf carries requests and loses the answers to uploads.
type deaf struct{}

func (deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	upload := r.Method == http.MethodPost && (strings.HasPrefix(r.URL.Path, "/v1/descriptor") || strings.HasPrefix(r.URL.Path, "/v1/card"))
	if err == nil && upload {
		res.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return res, err
}

// The simulation lost the answer to an upload: the document stood at the relay
// from then on, and the endpoint did not know it.
func TestPublishedWithoutAnAnswer(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	for range 2 { // the descriptor, then the card record
		a.reopen(func(c *core.Config) { c.Transport = deaf{} })
		if _, err := a.Publish(t.Context(), core.PublishOptions{}); !errors.Is(err, fault.RelayUnavailable) {
			t.Fatal(err)
		}
	}
	a.reopen(func(c *core.Config) { c.Transport = nil })
	done, err := a.Publish(t.Context(), core.PublishOptions{})
	if err != nil || done.Descriptor || done.Card {
		t.Fatalf("%+v, %v", done, err)
	}
	s, err := a.Status(t.Context(), core.StatusOptions{})
	if err != nil || s.DescriptorExpires == 0 {
		t.Errorf("status %+v, %v", s, err)
	}
}
