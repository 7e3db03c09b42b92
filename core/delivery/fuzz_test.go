package delivery_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzContent lets an admitted peer and a stranger send any plaintext. Whatever
// it is, the packet comes to a final end, what is delivered matches its schema,
// and the admission table stays as it was unless a contact says otherwise.
func FuzzContent(f *testing.F) {
	text := wire.NewObject(
		wire.M("type", wire.NewString(profile.TextType)),
		wire.M("schemaDigest", wire.NewString("e91541145d670369cf651d062e6bb8a94ce2605d4a9f2261ceef1d8a29c2e7da")),
		wire.M("body", textBody("hello")),
		wire.M("prekey", wire.NewString(wire.EncodeBase64(newPrekey()))),
	)
	receipt := text.With("type", wire.NewString(profile.ReceiptType)).
		With("schemaDigest", wire.NewString("a79fea8c61d30c484fdc9ba71fee310c612da84f84827fe2c4b2e99e5708d3e3")).
		With("body", (&delivery.ReceiptBody{MessageID: "550e8400-e29b-41d4-a716-446655440000", Outcome: "delivered"}).Value())
	contact := text.With("type", wire.NewString(profile.ContactType)).
		With("schemaDigest", wire.NewString("29fc76bbaa5a437aa068f823b1f2b2466c89fed6b2ea4b9cfa7c31cc80df15e9")).
		With("body", wire.NewObject(wire.M("kind", wire.NewString("request")), wire.M("profile", wire.NewString(profile.TextID)),
			wire.M("note", wire.NewString("")), wire.M("source", wire.NewObject()), wire.M("permit", wire.NewObject())))
	for _, v := range []wire.Value{text, receipt, contact, text.Without("prekey"), text.With("threadId", wire.NewString("t"))} {
		f.Add(v.Canonical(), true)
		f.Add(v.Canonical(), false)
	}
	w := newWorld()
	alice, bob, mallory := w.newEndpoint(f, "open", nil), w.newEndpoint(f, "", nil), w.newEndpoint(f, "", nil)
	befriend(bob, alice)
	f.Fuzz(func(t *testing.T, plaintext []byte, admitted bool) {
		if len(plaintext) > wire.MaxPlaintextBytes {
			t.Skip()
		}
		alice.t, bob.t, mallory.t = t, t, t
		from := mallory
		if admitted {
			from = bob
		}
		w.now++
		p := sealPlaintext(alice, from.id, plaintext, w.now)
		result := alice.take(p)
		if !result.Outcome.Final() {
			t.Fatalf("ended as %+v", result)
		}
		if !admitted && result.Outcome != delivery.Dropped {
			t.Fatalf("a stranger's packet ended as %+v", result)
		}
		if result.Message != nil {
			checkDelivered(t, alice, plaintext, result.Message)
		}
		alice.wantState(bob, "admitted")
		alice.wantState(mallory, "")
	})
}

func checkDelivered(t *testing.T, alice *endpoint, plaintext []byte, m *store.Message) {
	c, err := packet.ParseContent(plaintext)
	if err != nil {
		t.Fatalf("delivered content that does not parse: %v", err)
	}
	message, ok := alice.set.Installed(c.Type, c.SchemaDigest)
	if !ok || message.Schema.Match(c.Body) != nil || string(m.Body) != string(c.Body.Canonical()) {
		t.Fatalf("delivered %+v", m)
	}
}

// FuzzStored reads back rows of the Outbox and of held requests that hold any
// bytes: they decode or are storage_failed.
func FuzzStored(f *testing.F) {
	f.Add([]byte(`{"body":{"message":"x"},"schemaDigest":"e91541145d670369cf651d062e6bb8a94ce2605d4a9f2261ceef1d8a29c2e7da","type":"ace:text:1"}`))
	f.Add([]byte(`{"kind":"request","note":"","permit":{},"profile":"ace:text:1","source":{}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := delivery.StoredContent(store.OutboxEntry{Content: raw}); err != nil && fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("content: %v", err)
		}
		if _, err := delivery.DecodeRequest(store.Request{Body: raw}); err != nil && fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("request: %v", err)
		}
	})
}
