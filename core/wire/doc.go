// Package wire is chapter 02 without its signatures: strict JSON and canonical
// JSON, wire integers, Base64, identifiers, URLs, encodePayload and the
// constants.
//
// [Parse] reads a text into an immutable [Value]; [NewReader] reads the members
// of a closed object from it; [Value.Canonical] writes it back. The package
// returns plain errors: which code a malformed value has depends on the object
// it belongs to, and the package that owns the object decides it.
package wire
