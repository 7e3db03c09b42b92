package admission_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

func TestInvitation(t *testing.T) {
	from := newAgent(t)
	made := admission.NewInvitation(publish(t, from), issue(t, from, 1000))
	read, err := admission.DecodeInvitation(made.Text())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read.Text(), made.Text()) || read.Inviter() != from.ACEID() {
		t.Errorf("read %s of %s", read.Text(), read.Inviter())
	}
}

func TestMalformedInvitations(t *testing.T) {
	from := newAgent(t)
	whole, err := wire.Parse(admission.NewInvitation(publish(t, from), issue(t, from, 1000)).Text(), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	deep := wire.NewObject(wire.M("x", wire.NewString("y")))
	for range wire.MaxJSONDepth + 1 {
		deep = wire.NewObject(wire.M("x", deep))
	}
	permit, _ := whole.Get("permit")
	for name, text := range map[string][]byte{
		"no JSON":         []byte("hello"),
		"no object":       []byte("[]"),
		"without agent":   whole.Without("agent").Canonical(),
		"without permit":  whole.Without("permit").Canonical(),
		"another member":  whole.With("note", wire.NewString("hi")).Canonical(),
		"agent no object": whole.With("agent", wire.NewString("x")).Canonical(),
		"deep agent":      whole.With("agent", deep).Canonical(),
		"open permit":     whole.With("permit", permit.With("x", wire.NewInt(1))).Canonical(),
		"too long":        whole.With("agent", wire.NewObject(wire.M("x", wire.NewString(strings.Repeat("x", admission.MaxInvitationBytes))))).Canonical(),
	} {
		_, err := admission.DecodeInvitation(text)
		wantCode(t, name, err, fault.InvalidAuthorization)
	}
	if _, err := admission.DecodeInvitation(whole.With("agent", deepest(deep)).Canonical()); err != nil {
		t.Errorf("an agent of the greatest depth: %v", err)
	}
}

// deepest takes one level off.
func deepest(v wire.Value) wire.Value {
	inner, _ := v.Get("x")
	return inner
}

func TestRevisionHasAnEnd(t *testing.T) {
	_, err := admission.NextRevision(wire.MaxInt, 5)
	wantCode(t, "beyond a wire integer", err, fault.InvalidArgument)
}

func FuzzInvitation(f *testing.F) {
	from := newAgent(f)
	f.Add(admission.NewInvitation(publish(f, from), issue(f, from, 1000)).Text())
	f.Add([]byte(`{"agent":{"descriptor":{"aceId":1}},"permit":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := admission.DecodeInvitation(data)
		if err != nil {
			wantCode(t, "shape", err, fault.InvalidAuthorization)
			return
		}
		again, err := admission.DecodeInvitation(i.Text())
		if err != nil || !bytes.Equal(again.Text(), i.Text()) || again.Inviter() != i.Inviter() {
			t.Fatalf("not read again: %v", err)
		}
	})
}
