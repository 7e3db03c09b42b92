package descriptor_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// largest fills every member of a descriptor to its bound (04#fields).
func largest() descriptor.Fields {
	fill := func(prefix, last, text string, length int) string {
		rest := length - len([]rune(prefix)) - len(last)
		return prefix + strings.Repeat(text, rest) + last
	}
	f := descriptor.Fields{ExpiresAt: now + 3600, Prekey: prekey}
	for _, n := range []string{"1", "2", "3", "4"} {
		// Four bytes of UTF-8 for each character of the path.
		f.Relays = append(f.Relays, fill("https://r.example/", n, "😀", 2048))
	}
	for i := range 32 {
		id := fill("x:", wire.Decimal(int64(10+i)), "p", wire.MaxTypeBytes)
		f.Profiles = append(f.Profiles, descriptor.Profile{ID: id, Digest: suite.Hex256(nil)})
	}
	key := f.Profiles[0].ID
	around := len(wire.NewObject(wire.M(key, wire.NewObject(wire.M("", str(""))))).Canonical())
	f.Ext = wire.NewObject(wire.M(key, wire.NewObject(wire.M("", str(strings.Repeat("e", wire.MaxExtBytes-around))))))
	return f
}

// TestFullLogStaysPublishable fills a log until its builder refuses, has the
// emergency happen then, and publishes the largest descriptor with it: what a
// builder lets grow never outgrows MAX_PUBLISHED_AGENT_BYTES (04#fields).
func TestFullLogStaysPublishable(t *testing.T) {
	p := newPerson(t, now-100)
	for p.state.Budget().Appends() >= 3 {
		p = p.dlg(t, now-50, now+wire.MaxSigningKeyLifetime-100)
	}
	_, err := p.state.Delegate(p.root, newKey().PublicKey(), now-50, 0)
	wantCode(t, err, fault.InvalidArgument)

	full := p.rot(t, now-50).dlg(t, now-50, now+wire.MaxSigningKeyLifetime-100)
	a := build(t, full, largest(), now, -1)
	if len(a.Raw()) > wire.MaxPublishedAgentBytes || full.state.Budget().Appends() != 0 {
		t.Errorf("%d bytes, room for %d events", len(a.Raw()), full.state.Budget().Appends())
	}
	if _, err := descriptor.Verify(a.Raw(), now, descriptor.Options{}); err != nil {
		t.Error(err)
	}
	buildCard(t, full, fullRecord(), now, -1)
}
