package delivery_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const receiptNow = 1760140800

// receiptBody builds a body from pairs of member names and texts.
func receiptBody(pairs ...string) wire.Value {
	v := wire.NewObject(wire.M("messageId", wire.NewString("550e8400-e29b-41d4-a716-446655440000")))
	for i := 0; i < len(pairs); i += 2 {
		v = v.With(pairs[i], wire.NewString(pairs[i+1]))
	}
	return v
}

// TestReceiptMembers covers the member rules of 06#receipts.
func TestReceiptMembers(t *testing.T) {
	id := strings.Repeat("a", 64)
	for _, c := range []struct {
		name string
		body wire.Value
		ok   bool
	}{
		{"delivered", receiptBody("outcome", "delivered"), true},
		{"rejected", receiptBody("outcome", "rejected", "code", "invalid_body"), true},
		{"unknown prekey", receiptBody("outcome", "rejected", "code", "unknown_prekey", "prekey", id), true},
		{"no outcome", receiptBody(), false},
		{"another outcome", receiptBody("outcome", "read"), false},
		{"rejected without code", receiptBody("outcome", "rejected"), false},
		{"delivered with code", receiptBody("outcome", "delivered", "code", "invalid_body"), false},
		{"code of other characters", receiptBody("outcome", "rejected", "code", "no-way"), false},
		{"unknown prekey without it", receiptBody("outcome", "rejected", "code", "unknown_prekey"), false},
		{"prekey with another code", receiptBody("outcome", "rejected", "code", "invalid_body", "prekey", id), false},
		{"prekey delivered", receiptBody("outcome", "delivered", "prekey", id), false},
		{"prekey delivered with its code", receiptBody("outcome", "delivered", "code", "unknown_prekey", "prekey", id), false},
		{"short prekey", receiptBody("outcome", "rejected", "code", "unknown_prekey", "prekey", id[1:]), false},
		{"permit a string", receiptBody("outcome", "delivered", "permit", "x"), false},
		{"permit null", receiptBody("outcome", "delivered").With("permit", wire.Value{}), false},
		{"unknown member", receiptBody("outcome", "delivered", "x", "x"), false},
		{"no message ID", receiptBody("outcome", "delivered", "messageId", "x"), false},
	} {
		got, err := delivery.DecodeReceipt(c.body)
		switch {
		case c.ok && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.ok && !got.Value().Equal(c.body):
			t.Errorf("%s: read as %s", c.name, got.Value().Canonical())
		case !c.ok && fault.CodeOf(err) != fault.InvalidBody:
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestReceiptPermit: a renewal has to be one from the sender of the receipt to
// its recipient, and is looked at after the other members (06#receipts).
func TestReceiptPermit(t *testing.T) {
	sender, another := newReceiptSender(t), newReceiptSender(t)
	to := wire.ACEID(strings.Repeat("2", 64))
	renewal := func(id *kel.Identity, subject string) wire.Value {
		p, err := admission.IssuePermit(id, subject, receiptNow, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return p.Value()
	}
	delivered := receiptBody("outcome", "delivered")
	for _, c := range []struct {
		name string
		body wire.Value
		now  int64
		code fault.Code
	}{
		{"valid", delivered.With("permit", renewal(sender, to)), receiptNow, ""},
		{"expired", delivered.With("permit", renewal(sender, to)), receiptNow + 1000, fault.InvalidAuthorization},
		{"another subject", delivered.With("permit", renewal(sender, another.ACEID())), receiptNow, fault.InvalidAuthorization},
		{"another issuer", delivered.With("permit", renewal(another, to)), receiptNow, fault.InvalidAuthorization},
		{"empty", delivered.With("permit", wire.NewObject()), receiptNow, fault.InvalidAuthorization},
		{"another issuer and a code", delivered.With("permit", renewal(another, to)).With("code", wire.NewString("x")), receiptNow, fault.InvalidBody},
		{"none", delivered, receiptNow, ""},
	} {
		_, permit, err := delivery.VerifyReceipt(c.body, sender.ACEID(), to, sender.State(), c.now)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if _, has := c.body.Get("permit"); (permit != nil) != (has && c.code == "") {
			t.Errorf("%s: permit %v", c.name, permit)
		}
	}
}

func newReceiptSender(t *testing.T) *kel.Identity {
	t.Helper()
	key := func() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }
	root, signing := key(), key()
	log, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, key().PublicKey()), receiptNow-100)
	if err != nil {
		t.Fatal(err)
	}
	if log, err = log.Delegate(root, signing.PublicKey(), receiptNow-100, 0); err != nil {
		t.Fatal(err)
	}
	return kel.NewIdentity(log, signing)
}
