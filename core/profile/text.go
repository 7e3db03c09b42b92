package profile

import "github.com/ace-toolkit/ace/core/wire"

// TextBody returns the body of an ace:text:1 message.
func TextBody(text string) wire.Value {
	return wire.NewObject(wire.M("message", wire.NewString(text)))
}

// TextOf returns the text of a body that matches ace:text:1, "" for any other.
func TextOf(body wire.Value) string {
	v, _ := body.Get("message")
	text, _ := v.AsString()
	return text
}
