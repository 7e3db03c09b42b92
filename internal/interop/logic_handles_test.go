package interop

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestLogicHandleAddresses covers the client's rules for handles (04#card-record). The
// other kinds of the file are rules of the relay and of the grammar.
func TestLogicHandleAddresses(t *testing.T) {
	doc := loadVectors(t, filepath.Join(vectorDir, "logic", "handles.json"))
	ran := map[string]int{}
	for _, item := range doc.member(t, "cases").Items() {
		c := vector{item}
		name, _ := c.member(t, "name").AsString()
		r := wire.NewReader(c.member(t, "input"), "input")
		var answer func(*wire.Reader) wire.Value
		kind := r.String("kind")
		switch kind {
		case "address":
			answer = addressAnswer
		case "resolve":
			answer = resolveAnswer
		case "grammar", "skeleton", "same_skeleton", "claim":
			continue // not the client's
		default:
			t.Fatalf("%s: unknown kind %q", name, kind)
		}
		ran[kind]++
		t.Run(name, func(t *testing.T) {
			got := answer(r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if want := c.member(t, "expect"); !got.Equal(want) {
				t.Errorf("got %s, want %s", got.Canonical(), want.Canonical())
			}
		})
	}
	if ran["address"] == 0 || ran["resolve"] == 0 {
		t.Fatalf("cases run: %v", ran)
	}
}

func addressAnswer(r *wire.Reader) wire.Value {
	a, err := descriptor.ParseHandleAddress(r.String("text"), wire.Production)
	if err != nil {
		return facts(boolean("valid", false))
	}
	return facts(boolean("valid", true), str("name", a.Name), str("host", a.Host), str("home", a.Home))
}

func resolveAnswer(r *wire.Reader) wire.Value {
	query, bundle := r.Object("query"), r.Object("bundle")
	a := descriptor.HandleAddress{Name: query.String("name"), Home: query.String("relay")}
	b := &descriptor.CardBundle{CardRecord: descriptor.CardRecord{
		ACEID: bundle.String("aceId"), Home: bundle.String("home"), Handle: optionalString(bundle, "handle"),
	}}
	var pinnedID, pinnedHandle string
	for i, item := range r.Array("pins", 0, 16) {
		pin := r.Element("pins", i, item)
		home, handle, id := pin.String("home"), pin.String("handle"), pin.String("aceId")
		if home == a.Home && handle == a.Name {
			pinnedID = id
		}
		if home == a.Home && id == b.ACEID {
			pinnedHandle = handle
		}
		_ = pin.Close() // the error is r's as well
	}
	_, _ = query.Close(), bundle.Close() // these too
	result := "ok"
	if err := a.CheckResolved(b, pinnedID, pinnedHandle); err != nil {
		result = string(fault.CodeOf(err))
	}
	return facts(str("result", result))
}
