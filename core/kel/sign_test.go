package kel_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestVerifySignature goes through 01#operational-signatures steps 2 to 5. A
// case that breaks two of them says which one comes first.
func TestVerifySignature(t *testing.T) {
	p := newPen(t)
	const start, end = dayOne + 10, dayOne + 1000
	live, err := p.draw("icp").Delegate(p.root(0), p.signing(0).PublicKey(), start, end)
	must(t, err)
	payload := []byte("payload")
	sign := func(ts int64) wire.Signature {
		value, err := p.signing(0).Sign(kel.Message(live.ACEID(), ts, "1", payload), kel.ActionPacket)
		must(t, err)
		return wire.Signature{Seq: 1, Value: value}
	}
	flipped := func(s wire.Signature) wire.Signature {
		s.Value[100] ^= 1
		return s
	}
	withSeq := func(s wire.Signature, seq int64) wire.Signature {
		s.Seq = seq
		return s
	}
	for _, c := range []struct {
		name    string
		state   *kel.State
		sig     wire.Signature
		ts, now int64
		want    fault.Code
	}{
		{"first moment", live, sign(start), start, start, ""},
		{"last moment", live, sign(end - 1), end - 1, end - 1, ""},
		{"no delegation", p.draw("icp"), sign(start), start, start, fault.StalePeerBinding},
		{"no delegation, badly signed", p.draw("icp"), flipped(sign(start)), start, start, fault.StalePeerBinding},
		{"lower seq", live, withSeq(sign(start), 0), start, start, fault.StalePeerBinding},
		{"higher seq, badly signed", live, withSeq(flipped(sign(start)), 2), start, start, fault.StalePeerBinding},
		{"signed before the delegation", live, sign(start - 1), start - 1, start, fault.StalePeerBinding},
		{"signed before the delegation, badly", live, flipped(sign(start - 1)), start - 1, start, fault.StalePeerBinding},
		{"signed at notAfter", live, sign(end), end, start, fault.StalePeerBinding},
		{"badly signed", live, flipped(sign(start)), start, start, fault.InvalidAuthorization},
		{"badly signed and no longer usable", live, flipped(sign(start)), start, end, fault.InvalidAuthorization},
		{"another timestamp", live, sign(start + 1), start, start, fault.InvalidAuthorization},
		{"no longer usable", live, sign(start), start, end, fault.StalePeerBinding},
		{"broken clock", live, sign(start), start, -1, fault.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.state.VerifySignature(kel.ActionPacket, c.sig, c.ts, c.now, payload, fault.InvalidAuthorization)
			wantCode(t, err, c.want)
			if c.now < 0 {
				return
			}
			// In parts, for whoever remembers what the first one said.
			err = c.state.CheckSignature(kel.ActionPacket, c.sig, c.ts, payload, fault.InvalidAuthorization)
			if err == nil {
				err = c.state.CheckUsable(c.now)
			}
			wantCode(t, err, c.want)
		})
	}
	// The clock is no part of the first half.
	must(t, live.CheckSignature(kel.ActionPacket, sign(start), start, payload, fault.InvalidAuthorization))
	must(t, live.CheckUsable(end-1))
	wantCode(t, live.CheckUsable(end), fault.StalePeerBinding)
	wantCode(t, live.CheckUsable(-1), fault.InvalidArgument)
	wantCode(t, p.draw("icp").CheckUsable(start), fault.StalePeerBinding)
	good := sign(start)
	wantCode(t, live.VerifySignature(kel.ActionListen, good, start, start, payload, fault.InvalidSignature), fault.InvalidSignature)
	wantCode(t, live.VerifySignature(kel.ActionPacket, good, start, start, []byte("other"), fault.InvalidSignature), fault.InvalidSignature)
}

// TestVerifySignatureAfterRedelegation: the seq in a signature never selects a
// key of the past.
func TestVerifySignatureAfterRedelegation(t *testing.T) {
	p := newPen(t)
	old := kel.NewIdentity(p.draw("icp -> dlg"), p.signing(0))
	sig, err := old.Sign(kel.ActionPacket, later, nil)
	must(t, err)
	must(t, p.draw("icp -> dlg").VerifySignature(kel.ActionPacket, sig, later, later, nil, fault.InvalidSignature))
	for _, drawing := range []string{"icp -> dlg -> dlg'", "icp -> dlg -> rot", "icp -> dlg -> rot -> dlg"} {
		err := p.draw(drawing).VerifySignature(kel.ActionPacket, sig, later, later, nil, fault.InvalidSignature)
		wantCode(t, err, fault.StalePeerBinding)
	}
}

func TestIdentitySigns(t *testing.T) {
	p := newPen(t)
	s := p.draw("icp -> dlg")
	id := kel.NewIdentity(s, p.signing(0))
	if id.ACEID() != s.ACEID() || id.State() != s {
		t.Error("the identity is not that of its log")
	}
	if got := id.SigningTime(dayOne); got != s.LastTS() {
		t.Errorf("signing time %d before the last event at %d", got, s.LastTS())
	}
	if got := id.SigningTime(later); got != later {
		t.Errorf("signing time %d, want %d", got, later)
	}
	sig, err := id.Sign("example:profile", later, []byte("payload"))
	must(t, err)
	if sig.Seq != 1 {
		t.Errorf("seq %d, want 1", sig.Seq)
	}
	must(t, s.VerifySignature("example:profile", sig, later, later, []byte("payload"), fault.InvalidSignature))
}

// brokenSigner is a device that holds the right key and does not sign.
type brokenSigner struct {
	key   []byte
	value []byte
	err   error
}

func (b brokenSigner) PublicKey() []byte                   { return b.key }
func (b brokenSigner) Sign([]byte, string) ([]byte, error) { return b.value, b.err }

// TestIdentityRefuses covers the signer's half of 01#operational-signatures.
func TestIdentityRefuses(t *testing.T) {
	p := newPen(t)
	ending, err := p.draw("icp").Delegate(p.root(0), p.signing(0).PublicKey(), dayOne, later)
	must(t, err)
	key := p.signing(0).PublicKey()
	unplugged := errors.New("device unplugged")
	for _, c := range []struct {
		name   string
		state  *kel.State
		signer kel.Signer
		t      int64
		want   fault.Code
	}{
		{"no delegation", p.draw("icp"), p.signing(0), later, fault.IdentityUnavailable},
		{"revoked by a rotation", p.draw("icp -> dlg -> rot"), p.signing(0), later, fault.IdentityUnavailable},
		{"superseded key", p.draw("icp -> dlg -> dlg'"), p.signing(0), later, fault.IdentityUnavailable},
		{"the root itself", p.draw("icp -> dlg"), p.root(0), later, fault.IdentityUnavailable},
		{"delegation ended", ending, p.signing(0), later, fault.IdentityUnavailable},
		{"before the last event", p.draw("icp -> dlg"), p.signing(0), dayOne, fault.IdentityUnavailable},
		{"signer fails", ending, brokenSigner{key: key, err: unplugged}, dayOne, fault.IdentityUnavailable},
		{"signer returns no signature", ending, brokenSigner{key: key, value: []byte("?")}, dayOne, fault.IdentityUnavailable},
		{"broken clock", ending, p.signing(0), wire.MaxInt + 1, fault.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := kel.NewIdentity(c.state, c.signer).Sign(kel.ActionPacket, c.t, nil)
			wantCode(t, err, c.want)
		})
	}
	if _, err := kel.NewIdentity(ending, p.signing(0)).Sign(kel.ActionPacket, later, nil); !errors.Is(err, kel.ErrDelegationEnded) {
		t.Errorf("behind the end of the delegation: %v", err)
	}
	_, err = kel.NewIdentity(ending, brokenSigner{key: key, err: unplugged}).Sign(kel.ActionPacket, dayOne, nil)
	if !errors.Is(err, unplugged) {
		t.Error("the signer's own error is lost")
	}
}
