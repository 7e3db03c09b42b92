package commerce_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestMembers holds the table of commerce#messages to the schemas: a body has
// exactly the required members, each optional one may be added, and no other.
// Texts, amounts among them, are no numbers.
func TestMembers(t *testing.T) {
	set := profile.NewSet()
	if err := set.Install(profile.OfficialByID(profile.CommerceID)); err != nil {
		t.Fatal(err)
	}
	object := wire.NewObject()
	settlement := object.With("method", wire.NewString("stripe-link"))
	values := map[string]wire.Value{
		"expiresAt": wire.NewInt(0), "metadata": object.With("checksum", wire.NewString("x")).With("expiresAt", wire.NewInt(1)), "type": wire.NewString("inline"),
	}
	for messageType, c := range map[string]struct{ required, optional string }{
		commerce.RFQ:     {"need", "maxPrice currency expiresAt"},
		commerce.Offer:   {"price currency", "terms expiresAt"},
		commerce.Accept:  {"offerId", ""},
		commerce.Reject:  {"", "reason"},
		commerce.Invoice: {"offerId amount currency settlement", ""},
		commerce.Payment: {"referenceId amount currency settlement", ""},
		commerce.Deliver: {"type", "content contentType uri metadata"},
		commerce.Confirm: {"deliverId", "message"},
	} {
		values["settlement"] = settlement
		if messageType == commerce.Payment {
			values["settlement"] = settlement.With("proof", object)
		}
		value := func(name string) wire.Value {
			if v, ok := values[name]; ok {
				return v
			}
			return wire.NewString("x")
		}
		message, _ := set.Type(messageType)
		least := object
		for _, name := range strings.Fields(c.required) {
			least = least.With(name, value(name))
		}
		want := func(body wire.Value, matches bool) {
			t.Helper()
			if err := message.Schema.Match(body); (err == nil) != matches {
				t.Errorf("%s: %s: %v", messageType, body.Canonical(), err)
			}
		}
		want(least, true)
		want(least.With("x", wire.NewString("x")), false)
		all := least
		for _, name := range strings.Fields(c.optional) {
			want(least.With(name, value(name)), true)
			all = all.With(name, value(name))
		}
		want(all, true)
		for _, m := range all.Members() {
			if slices.Contains(strings.Fields(c.required), m.Key) {
				want(all.Without(m.Key), false)
			}
			if m.Value.Kind() == wire.String {
				want(all.With(m.Key, wire.NewInt(1)), false)
			}
			want(all.With(m.Key, wire.Value{}), false)
		}
	}
}

// TestUnknownMethods: the rule names the two methods itself, whatever a schema
// lets pass (commerce#settlement).
func TestUnknownMethods(t *testing.T) {
	for messageType, body := range map[string]string{
		commerce.Invoice: `{"settlement":{"method":"cash"}}`,
		commerce.Payment: `{"settlement":{"method":"cash","proof":{}}}`,
	} {
		wantCode(t, commerce.CheckBody(messageType, parse(t, body)), fault.InvalidBody)
	}
}

// TestAmountsAreTheApplications: an invoice for another amount than was offered,
// and a payment of another than was invoiced, break no rule (commerce#messages).
func TestAmountsAreTheApplications(t *testing.T) {
	m := newMemory()
	for i, next := range []struct{ from, messageType, body string }{
		{alice, commerce.RFQ, `{"need":"x","maxPrice":"1","currency":"USDC"}`},
		{bob, commerce.Offer, `{"price":"2","currency":"USDC"}`},
		{alice, commerce.Accept, `{"offerId":"2"}`},
		{bob, commerce.Invoice, strings.Replace(invoice, `"amount":"1","currency":"USDC"`, `"amount":"3","currency":"EUR"`, 1)},
		{alice, commerce.Payment, strings.Replace(fmt.Sprintf(payment, "4"), `"amount":"1"`, `"amount":"4"`, 1)},
	} {
		if err := m.pass(t, next.from, next.messageType, fmt.Sprint(i+1), next.body); err != nil {
			t.Fatalf("message %d: %v", i+1, err)
		}
	}
}

// TestBoundsComeLast: a bound that is reached hides no other failure
// (commerce#check-order step 7).
func TestBoundsComeLast(t *testing.T) {
	m := newMemory()
	if err := m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`); err != nil {
		t.Fatal(err)
	}
	m.open = 1000
	wantCode(t, m.pass(t, alice, commerce.RFQ, "2", `{"need":"x"}`), commerce.TransitionNotAllowed)
	for i := range 999 {
		if err := m.pass(t, bob, commerce.Offer, fmt.Sprint("o", i), terms); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, m.pass(t, alice, commerce.Offer, "more", terms), commerce.WrongRole)
	wantCode(t, m.pass(t, bob, commerce.Offer, "more", terms), commerce.LimitExceeded)
}
