package bench

import (
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const kelTime = 1_758_140_800 // ts of every event

// kelKit holds a log of MAX_KEL_EVENTS events and, apart from it, the
// verifications that replaying it cannot do without.
type kelKit struct {
	log      wire.Value
	root     *suite.VerifyKey
	messages [][]byte
	sigs     [][]byte
}

// newKELKit signs an inception and 255 delegations. The builders would stop
// where the log no longer fits into a PublishedAgent, so it does without them.
func newKELKit(b *testing.B) *kelKit {
	b.Helper()
	root, signing := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	k := &kelKit{}
	var err error
	if k.root, err = suite.ParseVerifyKey(root.PublicKey()); err != nil {
		b.Fatal(err)
	}
	next := wire.M("next", wire.NewString(kel.Commitment(wire.SchemeMLDSA65, signing.PublicKey())))
	events := make([]wire.Value, 0, wire.MaxKELEvents)
	aceID, prev := "", ""
	for seq := range int64(wire.MaxKELEvents) {
		event := kelEvent(kel.Delegation, seq, wire.M("key", keyObject(signing)), wire.M("prev", wire.NewString(prev)))
		if seq == 0 {
			event = kelEvent(kel.Inception, seq, wire.M("root", keyObject(root)), next)
		}
		canonical, err := kel.EventBytes(event)
		if err != nil {
			b.Fatal(err)
		}
		if prev = suite.Hex256(canonical); seq == 0 {
			aceID = wire.ACEID(prev)
		}
		message := kel.Message(aceID, kelTime, "", canonical)
		sig, err := root.Sign(message, kel.ActionKEL)
		if err != nil {
			b.Fatal(err)
		}
		k.messages, k.sigs = append(k.messages, message), append(k.sigs, sig)
		events = append(events, event.With("sig", wire.NewObject(
			wire.M("scheme", wire.NewString(wire.SchemeMLDSA65)),
			wire.M("value", wire.NewString(wire.EncodeBase64(sig))))))
	}
	k.log = wire.NewArray(events...)
	return k
}

func kelEvent(name string, seq int64, members ...wire.Member) wire.Value {
	return wire.NewObject(append(members,
		wire.M("t", wire.NewString(name)), wire.M("seq", wire.NewInt(seq)), wire.M("ts", wire.NewInt(kelTime)))...)
}

func keyObject(k *suite.SigningKey) wire.Value {
	return wire.NewObject(
		wire.M("scheme", wire.NewString(wire.SchemeMLDSA65)),
		wire.M("publicKey", wire.NewString(wire.EncodeBase64(k.PublicKey()))))
}

// arrive returns the log as it comes off the wire, sharing no memory with the
// one before: strings of one memory compare without being read.
func (k *kelKit) arrive(b *testing.B) wire.Value {
	b.Helper()
	v, err := wire.Parse(k.log.Canonical(), wire.MaxJSONDepth)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// verifyAll does the bare verifications of the log, with the key expanded once.
func (k *kelKit) verifyAll(b *testing.B) {
	for i, m := range k.messages {
		if !k.root.Verify(m, k.sigs[i], kel.ActionKEL) {
			b.Fatal("signature does not verify")
		}
	}
}

// BenchmarkKEL compares a log of 256 events with the 256 verifications in it.
// The goals for "ratio" are at most 1.6 for verify and 0.15 for cached.
func BenchmarkKEL(b *testing.B) {
	k := newKELKit(b)
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		log := k.arrive(b)
		k.compare(b, func() error {
			_, err := kel.Verify(log, kelTime)
			return err
		})
	})
	b.Run("cached", func(b *testing.B) {
		b.ReportAllocs()
		cache := kel.NewCache(1)
		if _, err := cache.Verify(k.arrive(b), kelTime); err != nil {
			b.Fatal(err)
		}
		log := k.arrive(b)
		k.compare(b, func() error {
			_, err := cache.Verify(log, kelTime)
			return err
		})
	})
}

// compare runs op and the bare verifications in turn, so that the machine's
// drift hits both alike, and reports how they relate.
func (k *kelKit) compare(b *testing.B, op func() error) {
	var ours, bare time.Duration
	for b.Loop() {
		ours += timed(1, func() {
			if err := op(); err != nil {
				b.Fatal(err)
			}
		})
		b.StopTimer() // time and allocations are those of op alone
		bare += timed(1, func() { k.verifyAll(b) })
		b.StartTimer()
	}
	b.ReportMetric(float64(ours)/float64(bare), "ratio")
}
