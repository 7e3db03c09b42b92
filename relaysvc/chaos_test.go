package relaysvc_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

func startChaos(t *testing.T, c relaysvc.Chaos) *relay {
	t.Helper()
	return start(t, func(config *relaysvc.Config) { config.Chaos = &c })
}

// fate says what became of one send.
func fate(a answer, err error) string {
	switch {
	case err != nil:
		return "broken"
	case a.header.Get("Retry-After") != "":
		return fmt.Sprintf("%d later", a.status)
	}
	return fmt.Sprint(a.status)
}

// Whatever happens to a send, a packet that was answered with ok is queued, and
// sending it until it is queues it once.
func TestChaosLosesNoAcceptedPacket(t *testing.T) {
	r := startChaos(t, relaysvc.Chaos{Drop: 0.4, Error: 0.3, Seed: 1})
	a := r.published()
	from := strangerID()
	permit := a.permit(from)
	fates := map[string]bool{}
	var want []string
	late := false
	for range 40 {
		p := a.packet(from)
		want = append(want, string(p))
		for {
			got, err := r.try(sending("", p, permit))
			f := fate(got, err)
			fates[f] = true
			if f == "200" {
				break
			}
			if f == "broken" && slices.Contains(texts(a.messages()), string(p)) {
				late = true
			}
		}
	}
	same(t, texts(a.messages()), want)
	if got := slices.Sorted(maps.Keys(fates)); fmt.Sprint(got) != "[200 429 later 500 503 later broken]" {
		t.Errorf("seen %v", got)
	}
	if !late {
		t.Error("no connection broke after the packet was queued")
	}
}

// The n-th send of two runs meets the same fault.
func TestChaosFollowsItsSeed(t *testing.T) {
	run := func(seed uint64) (fates []string) {
		r := startChaos(t, relaysvc.Chaos{Drop: 0.3, Error: 0.3, Dup: 0.1, Seed: seed})
		a := r.published()
		from := strangerID()
		for range 20 {
			fates = append(fates, fate(r.try(sending("", a.packet(from), a.permit(from)))))
		}
		return fates
	}
	first := run(7)
	if again := run(7); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("with one seed:\n%v\n%v", first, again)
	}
	if other := run(8); fmt.Sprint(other) == fmt.Sprint(first) {
		t.Errorf("with another seed the same: %v", first)
	}
}

// readStream reads a stream up to its end, which err tells, or until it has
// brought so many different entries. Half of one is left when the end came in
// the middle.
func readStream(body io.Reader, most int) (whole []event, half bool, err error) {
	var e event
	seen := map[string]bool{}
	for lines := bufio.NewReader(body); len(seen) < most; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return whole, line != "" || e != event{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.id != "" {
				seen[e.id] = true
				whole = append(whole, e)
			}
			e = event{}
		}
	}
	return whole, false, nil
}

// A client that listens again after the last entry it has got gets every entry,
// in order, although streams break and entries come twice.
func TestChaosOnStreams(t *testing.T) {
	r := startChaos(t, relaysvc.Chaos{Drop: 0.1, Dup: 0.2, Error: 0.2, Seed: 3})
	a := r.published()
	from := strangerID()
	permit := a.permit(from)
	var want []string
	for range 60 {
		p := a.packet(from)
		want = append(want, `{"packet":`+string(p)+`}`)
		for fate(r.try(sending("", p, permit))) != "200" {
		}
	}
	since, twice, amid, between := "-", 0, 0, 0
	var got []string
	for len(got) < len(want) {
		req, err := http.NewRequest("GET", r.url+"/v1/listen?since="+since, nil)
		must(t, err)
		req.Header = a.signed(kel.ActionListen, relayapi.ListenPayload(since))
		resp, err := r.client.Do(req)
		if err != nil {
			continue
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			continue
		}
		whole, half, err := readStream(resp.Body, len(want)-len(got))
		resp.Body.Close()
		switch {
		case err == io.EOF:
			t.Fatal("a stream that was cut ended cleanly")
		case half:
			amid++
		case err != nil:
			between++
		}
		for _, e := range whole {
			if e.id == since {
				twice++
				continue
			}
			since = e.id
			got = append(got, e.data)
		}
	}
	same(t, got, want)
	if twice == 0 || amid == 0 || between == 0 {
		t.Errorf("%d entries came twice, %d streams were cut in the middle of one and %d between two", twice, amid, between)
	}
}

func TestChaosConfig(t *testing.T) {
	for name, c := range map[string]relaysvc.Config{
		"in production":   {PublicURL: elsewhere, Chaos: &relaysvc.Chaos{}},
		"negative":        {Development: true, Chaos: &relaysvc.Chaos{Drop: -0.1}},
		"over one":        {Development: true, Chaos: &relaysvc.Chaos{Dup: 1.1}},
		"no number":       {Development: true, Chaos: &relaysvc.Chaos{Error: math.NaN()}},
		"a long delay":    {Development: true, Chaos: &relaysvc.Chaos{Delay: relaysvc.MaxChaosDelay + 1}},
		"a delay of less": {Development: true, Chaos: &relaysvc.Chaos{Delay: -1}},
	} {
		c.DBPath = filepath.Join(t.TempDir(), "relay.db")
		if server, err := relaysvc.New(c); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				server.Close()
			}
		}
	}
}
