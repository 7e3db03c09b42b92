package cli

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// memberBody returns the body that --set and --set-file describe, which has no
// member without them.
func (a *app) memberBody(o sendOptions) (wire.Value, error) {
	msg, ok := o.known.messageType(o.messageType)
	if !ok {
		return wire.Value{}, usagef("a message of type %s needs --body or --body-file", o.messageType)
	}
	return a.setBody(msg.Schema, o.set, o.setFiles)
}

// setBody makes a message body of --set NAME=VALUE and --set-file NAME=FILE. A
// value is read as the schema of its member says, and a dot in NAME leads into an
// object.
func (a *app) setBody(schema *profile.Schema, set, files []string) (wire.Value, error) {
	body := wire.NewObject()
	for _, assignment := range set {
		name, text, ok := strings.Cut(assignment, "=")
		if !ok {
			return body, usagef("--set is NAME=VALUE, not %q", assignment)
		}
		var err error
		if body, err = setMember(body, schema, name, name, text); err != nil {
			return body, err
		}
	}
	for _, assignment := range files {
		name, file, ok := strings.Cut(assignment, "=")
		if !ok {
			return body, usagef("--set-file is NAME=FILE, not %q", assignment)
		}
		text, err := a.readArg(file, wire.MaxPlaintextBytes, fault.InvalidBody)
		if err != nil {
			return body, err
		}
		if body, err = setMember(body, schema, name, name, string(text)); err != nil {
			return body, err
		}
	}
	return body, nil
}

// setMember sets one member of an object, or of an object inside it. name is
// what is left of full. Inside an object that takes any member, where schema is
// nil, values are text.
func setMember(object wire.Value, schema *profile.Schema, full, name, text string) (wire.Value, error) {
	first, rest, nested := strings.Cut(name, ".")
	var member *profile.Schema
	if schema != nil {
		var listed bool
		if member, listed = schema.Property(first); !listed && !schema.Open() {
			return object, unknownMember(schema, full, first)
		}
	}
	held, set := object.Get(first)
	if !nested {
		if set {
			return object, usagef("%s is set twice", full)
		}
		v, err := valueOf(member, full, text)
		return object.With(first, v), err
	}
	switch {
	case member != nil && member.Kind() != wire.Object, set && held.Kind() != wire.Object:
		return object, usagef("%s: %s is no object", full, first)
	case !set:
		held = wire.NewObject()
	}
	held, err := setMember(held, member, full, rest, text)
	return object.With(first, held), err
}

func unknownMember(schema *profile.Schema, full, name string) error {
	err := usagef("%s: the message has no member %q there", full, name)
	if near := nearest(name, schema.Properties()); near != "" {
		return hintf(err, "did you mean %s?", near)
	}
	return hintf(err, "there are %s", strings.Join(schema.Properties(), ", "))
}

// valueOf reads text as the schema of a member says: an object or an array is
// JSON.
func valueOf(schema *profile.Schema, name, text string) (wire.Value, error) {
	if !utf8.ValidString(text) {
		return wire.Value{}, usagef("%s is not valid UTF-8", name)
	}
	if schema == nil || schema.Kind() == wire.String {
		return wire.NewString(text), nil
	}
	switch schema.Kind() {
	case wire.Number:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > wire.MaxInt || n < -wire.MaxInt {
			return wire.Value{}, usagef("%s is an integer, not %q", name, text)
		}
		return wire.NewInt(n), nil
	case wire.Bool:
		if text != "true" && text != "false" {
			return wire.Value{}, usagef("%s is true or false, not %q", name, text)
		}
		return wire.NewBool(text == "true"), nil
	}
	return parseBody(name, []byte(text))
}
