// Package fault is the one error type of the module: every failure carries a
// protocol code whose category is fixed by the specification
// (06#error-codes).
//
// Create errors with [New] and [Wrap], read them with [CodeOf], and compare
// them with errors.Is against a [Code]:
//
//	if errors.Is(err, fault.UnknownPeer) { … }
//
// Packages that only decode bytes (core/wire, core/suite) return plain errors;
// the package that owns the surface wraps them once with the code of that
// surface.
package fault

import (
	"errors"
	"fmt"
)

// Error is a failure with a protocol code.
type Error struct {
	Code Code
	// Msg says what failed, in lower case, with the position and the rule.
	// It never holds secrets, and text chosen by a peer only quoted.
	Msg string
	// Remote is the code that a peer or relay stated: the receipt's code of
	// a delivery_rejected, the error member of a relay's answer.
	Remote string
	// Status is the HTTP status of a relay's answer, or 0.
	Status int
	// RetryAfter is the delay in seconds a relay asked for, or 0.
	RetryAfter int64
	// Holder is the process that holds a lock (lock_busy), or nil.
	Holder *Holder
	// Err is the cause, or nil.
	Err error
}

// Holder is a process that holds a lock.
type Holder struct {
	PID     int    `json:"pid"`
	Command string `json:"cmd"`
	Since   int64  `json:"since"` // Unix seconds
}

// New returns an error with the given code and message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Wrap gives err a code. The text of err becomes the message and err stays
// reachable through errors.Is and errors.As. Wrap returns nil for a nil err.
func Wrap(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Wrapf is Wrap with a message put before the text of err.
func Wrapf(code Code, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...), Err: err}
}

// Error returns the message and the text of the cause, without the code.
func (e *Error) Error() string {
	switch {
	case e.Err == nil && e.Msg == "":
		return string(e.Code)
	case e.Err == nil:
		return e.Msg
	case e.Msg == "":
		return e.Err.Error()
	}
	return e.Msg + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the code of e, so that
// errors.Is(err, fault.UnknownPeer) works.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code of the outermost Error in err's chain, or "" when
// there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ""
}
