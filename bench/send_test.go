package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// sendKit is what a relay holds when a packet with a permit arrives.
type sendKit struct {
	*packetKit
	recipient *kel.State
	permit    *admission.Permit
	body      []byte // of about 14 KB, the permit included
}

func newSendKit(b *testing.B) *sendKit {
	b.Helper()
	k := &sendKit{packetKit: newPacketKit(b)}
	root, next, signing := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	log, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), packetNow-1000)
	must(b, err)
	k.recipient, err = log.Delegate(root, signing.PublicKey(), packetNow-1000, 0)
	must(b, err)
	k.to = k.recipient.ACEID()
	k.permit, err = admission.IssuePermit(kel.NewIdentity(k.recipient, signing), k.sender.ACEID(), packetNow, 86400)
	must(b, err)
	k.body = relayapi.SendBody(k.seal(b).Raw(), k.permit.Raw())
	return k
}

func (k *sendKit) bareVerify(b *testing.B) func() {
	return func() {
		if !k.verify.Verify(k.message, k.sig, kel.ActionPacket) {
			b.Fatal("signature does not verify")
		}
	}
}

// BenchmarkDecodeSend reports "ratio": decoding the body of a send ÷ one
// verification with a cached key. The first line is the body that clients write,
// the others bodies that need a tree; bytes and time are those of decoding alone.
func BenchmarkDecodeSend(b *testing.B) {
	k := newSendKit(b)
	zeros := `{"packet":[` + strings.Repeat("0,", 1<<20) + `0]}`
	for _, c := range []struct {
		name  string
		body  []byte
		valid bool
	}{
		{"canonical", k.body, true},
		{"with a space", append([]byte(" "), k.body...), true},
		{"2 MB of zeros", []byte(zeros), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			reportAgainst(b, k.bareVerify(b), func() {
				if _, err := relayapi.DecodeSend(c.body); (err == nil) != c.valid {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkPermit reports "ratio": judging a permit at the relay ÷ one
// verification with a cached key. "hit" is one that the cache remembers, "miss"
// one that it does not.
func BenchmarkPermit(b *testing.B) {
	k := newSendKit(b)
	for _, c := range []struct {
		name  string
		cache *admission.PermitCache
	}{
		{"hit", admission.NewPermitCache(16)},
		{"miss", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			reportAgainst(b, k.bareVerify(b), func() {
				must(b, c.cache.Verify(k.permit.Raw(), k.recipient, k.recipient.ACEID(), k.sender.ACEID(), packetNow))
			})
		})
	}
}

// reportAgainst measures op and, now and then, the reference, so that the
// machine's drift hits both alike, and reports how their means relate as
// "ratio". Time and allocations are those of op.
func reportAgainst(b *testing.B, reference, op func()) {
	b.Helper()
	b.ReportAllocs()
	op() // what is remembered is remembered now
	const every, each = 64, 8
	var ours, theirs time.Duration
	rounds, references := 0, 0
	for b.Loop() {
		if rounds%every == 0 {
			b.StopTimer()
			theirs += timed(each, reference)
			references += each
			b.StartTimer()
		}
		ours += timed(1, op)
		rounds++
	}
	b.ReportMetric(float64(ours)/float64(rounds)/(float64(theirs)/float64(references)), "ratio")
}
