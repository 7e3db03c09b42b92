package core_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

func listed(tags ...string) descriptor.CardRecord {
	return descriptor.CardRecord{Contact: "open", Listed: true, Card: descriptor.Card{Tags: tags}}
}

// find returns the ACE IDs of all pages and how many entries were refused.
func (a *agent) find(o core.FindOptions) (ids []string, pages, refused int, err error) {
	a.t.Helper()
	err = a.Find(a.t.Context(), o, func(p core.FoundPage) error {
		pages++
		refused += len(p.Refused)
		for _, c := range p.Cards {
			ids = append(ids, c.ACEID)
		}
		return nil
	})
	return ids, pages, refused, err
}

// TestFind: the directory has who is listed there, in the order of ACE IDs, and
// the filters of 07#descriptors-and-cards narrow it.
func TestFind(t *testing.T) {
	r := newRelay(t)
	a, b, c := newAgent(t, r, listed("red")), newAgent(t, r, listed("red", "blue")), newAgent(t, r, listed())
	hidden := newAgent(t, r, open())
	for _, each := range []*agent{a, b, c, hidden} {
		each.publish(false)
	}
	all := []string{a.ACEID(), b.ACEID(), c.ACEID()}
	red := []string{a.ACEID(), b.ACEID()}
	slices.Sort(all)
	slices.Sort(red)
	for name, test := range map[string]struct {
		options core.FindOptions
		want    []string
	}{
		"all":             {core.FindOptions{}, all},
		"tag":             {core.FindOptions{Tag: "red"}, red},
		"no such tag":     {core.FindOptions{Tag: "green"}, nil},
		"profile":         {core.FindOptions{Profile: "ace:text:1"}, all},
		"no such profile": {core.FindOptions{Profile: "ace:commerce:1"}, nil},
		"limit":           {core.FindOptions{Limit: 2}, all[:2]},
	} {
		ids, _, refused, err := hidden.find(test.options)
		if err != nil || refused != 0 || !slices.Equal(ids, test.want) {
			t.Errorf("%s: %v, %d refused: %v", name, ids, refused, err)
		}
	}
	var first core.FoundPage
	err := hidden.Find(t.Context(), core.FindOptions{Limit: 1}, func(p core.FoundPage) error { first = p; return nil })
	if err != nil || first.Cursor == "" {
		t.Fatalf("first page %+v: %v", first, err)
	}
	if ids, _, _, err := hidden.find(core.FindOptions{Cursor: first.Cursor}); err != nil || !slices.Equal(ids, all[1:]) {
		t.Errorf("behind the first: %v: %v", ids, err)
	}
}

// A card of the directory counts for the horizon, also of a stranger, whose record
// itself is not kept (04#card-record).
func TestFindKeepsTheHorizon(t *testing.T) {
	r := newRelay(t)
	a, b := newAgent(t, r, listed()), newAgent(t, r, closed())
	b.publish(false)
	a.publish(false)
	old := r.cards(t, a)
	a.publish(true)
	if ids, _, _, err := b.find(core.FindOptions{}); err != nil || len(ids) != 1 {
		t.Fatalf("%v: %v", ids, err)
	}
	b.change(func(tx *store.Tx) error {
		kept, ok, err := tx.Card(a.ACEID())
		if !ok || kept.Raw != nil {
			t.Errorf("kept of a stranger: %v, %d bytes", ok, len(kept.Raw))
		}
		return err
	})
	b.reopen(func(c *core.Config) { c.Transport = &answering{path: "/v1/cards", bodies: []string{old}} })
	if ids, _, refused, err := b.find(core.FindOptions{}); err != nil || len(ids) != 0 || refused != 1 {
		t.Errorf("an older record: %v, %d refused: %v", ids, refused, err)
	}
	// With the identity known, what is kept is the record, for lookups.
	b.reopen(func(c *core.Config) { c.Transport = nil })
	if _, err := b.Lookup(t.Context(), a.ACEID()); err != nil {
		t.Fatal(err)
	}
	b.change(func(tx *store.Tx) error {
		kept, _, err := tx.Card(a.ACEID())
		if kept.Raw == nil {
			t.Error("a lookup after a find keeps no record")
		}
		return err
	})
}

// cards returns the first page of the directory with what stands there now.
func (r *relay) cards(t *testing.T, a *agent) string {
	t.Helper()
	page := r.get(t, "/v1/cards")
	if !strings.Contains(page, a.ACEID()) {
		t.Fatalf("directory without %s", a.ACEID())
	}
	return page
}

func (r *relay) get(t *testing.T, path string) string {
	t.Helper()
	res, err := http.Get(r.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A relay that lies does not get its entries believed, and cannot keep a client
// for ever.
func TestFindAtALyingRelay(t *testing.T) {
	r := newRelay(t)
	a, b := newAgent(t, r, listed("red")), newAgent(t, r, closed())
	b.publish(false)
	a.publish(false)
	page := r.cards(t, a)
	hidden := newAgent(t, r, open())
	hidden.publish(false)
	other := newRelay(t)
	elsewhere := newAgent(t, other, listed())
	elsewhere.publish(false)
	withCursor := strings.Replace(page, `"cursor":null`, `"cursor":"x"`, 1)
	for name, test := range map[string]struct {
		options core.FindOptions
		bodies  []string
		refused int
		code    fault.Code
	}{
		"changed":           {bodies: []string{strings.Replace(page, `"contact":"open"`, `"contact":"closed"`, 1)}, refused: 1},
		"not listed":        {bodies: []string{strings.Replace(page, `"listed":true`, `"listed":false`, 1)}, refused: 1},
		"without the tag":   {options: core.FindOptions{Tag: "blue"}, bodies: []string{page}, refused: 1},
		"signed, hidden":    {bodies: []string{`{"cards":[` + r.get(t, "/v1/card/"+hidden.ACEID()) + `],"cursor":null}`}, refused: 1},
		"signed, elsewhere": {bodies: []string{`{"cards":[` + other.get(t, "/v1/card/"+elsewhere.ACEID()) + `],"cursor":null}`}, refused: 1},
		"no card":           {bodies: []string{`{"cards":[{}],"cursor":null}`}, refused: 1},
		"again and again":   {options: core.FindOptions{Limit: 1000}, bodies: []string{withCursor}, code: fault.RelayProtocolError},
		"refused for ever":  {options: core.FindOptions{Limit: 6}, bodies: []string{`{"cards":[{},{}],"cursor":"x"}`}, refused: 6},
		"empty for ever":    {options: core.FindOptions{Limit: 7}, bodies: []string{`{"cards":[],"cursor":"x"}`}, code: fault.RelayProtocolError},
		"more than allowed": {options: core.FindOptions{Limit: 1}, bodies: []string{`{"cards":[{},{}],"cursor":null}`}, code: fault.RelayProtocolError},
	} {
		b.reopen(func(c *core.Config) { c.Transport = &answering{path: "/v1/cards", bodies: test.bodies} })
		ids, _, refused, err := b.find(test.options)
		if fault.CodeOf(err) != test.code || refused != test.refused || test.code == "" && len(ids) != 0 {
			t.Errorf("%s: %v, %d refused: %v", name, ids, refused, err)
		}
	}
	b.reopen(func(c *core.Config) { c.Transport = nil; c.Relay = "" })
	if _, _, _, err := b.find(core.FindOptions{}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("without a relay: %v", err)
	}
}

// answering answers the requests to a path with bodies of its own, the last one
// over and over.
type answering struct {
	path   string
	bodies []string
}

func (f *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != f.path {
		return http.DefaultTransport.RoundTrip(r)
	}
	body := f.bodies[0]
	if len(f.bodies) > 1 {
		f.bodies = f.bodies[1:]
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}
