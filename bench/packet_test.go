package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const packetNow = 1760140800

// packetKit is a sender, a recipient's prekey and a packet between them that
// carries a text of a few kilobytes.
type packetKit struct {
	sender    *kel.Identity
	verified  *kel.State // the sender as its peers pin it
	to        string
	plaintext []byte
	sealTo    *suite.EncapsulationKey
	openWith  *suite.DecapsulationKey
	packet    *packet.Packet

	// What the primitives work on when nothing is around them.
	signing *suite.SigningKey
	verify  *suite.VerifyKey
	message []byte
	sig     []byte
}

func newPacketKit(b *testing.B) *packetKit {
	b.Helper()
	k := &packetKit{to: wire.ACEID(suite.Hex256([]byte("recipient"))), openWith: suite.NewDecapsulationKey(suite.NewSeed())}
	root, next := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	k.signing = suite.NewSigningKey(suite.NewSeed())

	log, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), packetNow-1000)
	must(b, err)
	log, err = log.Delegate(root, k.signing.PublicKey(), packetNow-1000, 0)
	must(b, err)
	k.sender = kel.NewIdentity(log, k.signing)
	k.verified, err = kel.Verify(log.Value(), packetNow)
	must(b, err)
	k.sealTo, err = suite.ParseEncapsulationKey(k.openWith.PublicKey())
	must(b, err)
	k.verify, err = suite.ParseVerifyKey(k.signing.PublicKey())
	must(b, err)

	content := packet.Content{
		Type:         profile.TextType,
		SchemaDigest: suite.Hex256([]byte("schema")),
		Body:         wire.NewObject(wire.M("message", wire.NewString(strings.Repeat("reading ", 250)))),
		Prekey:       k.openWith.PublicKey(),
	}
	k.plaintext, err = content.Canonical()
	must(b, err)
	k.packet = k.seal(b)
	payload := packet.SignaturePayload(k.to, k.packet.MessageID, k.packet.Prekey, k.packet.KEMCiphertext, k.packet.Payload)
	k.message = kel.Message(k.packet.From, packetNow, "1", payload)
	k.sig = k.packet.Signature.Value
	return k
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (k *packetKit) seal(b *testing.B) *packet.Packet {
	p, err := packet.Seal(k.sender, k.to, suite.NewMessageID(), packetNow, k.plaintext, k.sealTo)
	must(b, err)
	return p
}

// open is what a receiver does with the bytes of a packet: decode, verify,
// decrypt.
func (k *packetKit) open(b *testing.B) []byte {
	p, err := packet.Decode(k.packet.Raw())
	must(b, err)
	must(b, p.VerifySignature(k.verified, packetNow))
	must(b, p.CheckWindow(packetNow))
	plaintext, err := p.Open(k.openWith)
	must(b, err)
	return plaintext
}

// BenchmarkPacketOpen reports "ratio": opening a packet ÷ one verification with
// a cached key and one decapsulation with an expanded key. Must be at most 1.5.
// The second line reads the private content as well.
func BenchmarkPacketOpen(b *testing.B) {
	k := newPacketKit(b)
	verify := func() {
		if !k.verify.Verify(k.message, k.sig, kel.ActionPacket) {
			b.Fatal("signature does not verify")
		}
	}
	decapsulate := func() {
		_, err := k.openWith.Decapsulate(k.packet.KEMCiphertext)
		must(b, err)
	}
	b.Run("alone", func(b *testing.B) {
		reportRatio(b, func() { k.open(b) }, verify, decapsulate)
	})
	b.Run("with content", func(b *testing.B) {
		whole := func() {
			_, err := packet.ParseContent(k.open(b))
			must(b, err)
		}
		reportRatio(b, whole, verify, decapsulate)
	})
}

// BenchmarkPacketSeal reports "ratio": sealing a packet ÷ one signature and one
// encapsulation. Must be at most 1.3.
func BenchmarkPacketSeal(b *testing.B) {
	k := newPacketKit(b)
	sign := func() {
		_, err := k.signing.Sign(k.message, kel.ActionPacket)
		must(b, err)
	}
	encapsulate := func() {
		_, _, err := k.sealTo.Encapsulate()
		must(b, err)
	}
	reportRatio(b, func() { k.seal(b) }, sign, encapsulate)
}

// reportRatio measures whole against its parts, eight of each in turn, and
// reports the median of the ratios as "ratio": the machine's drift hits whole
// and parts alike, and a round that another process interrupted does not count.
// The allocations per operation are those of eight rounds of whole and parts.
func reportRatio(b *testing.B, whole func(), parts ...func()) {
	b.Helper()
	b.ReportAllocs()
	var ratios []float64
	for b.Loop() {
		wholeTime := timed(8, whole)
		var partsTime time.Duration
		for _, part := range parts {
			partsTime += timed(8, part)
		}
		ratios = append(ratios, float64(wholeTime)/float64(partsTime))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
