package cli

import (
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// The exit statuses. The tens digit is the category of the failure, so that a
// script can act on the status divided by ten. Units inside a decade may be
// added, never changed.
const (
	exitOK           = 0
	exitBug          = 1
	exitUsage        = 2
	exitEmpty        = 3
	exitDeclined     = 4
	exitPermanent    = 10
	exitNoPeer       = 11
	exitNotAllowed   = 12
	exitNotAuthentic = 13
	exitRejected     = 14
	exitUnknownEnd   = 15
	exitAddress      = 16
	exitTransient    = 20
	exitTransientAt  = 21
	exitDeadline     = 22
	exitLocal        = 30
	exitHeld         = 31
	exitNoIdentity   = 32
	exitStorage      = 33
	exitFull         = 34
	exitThreadBusy   = 35
	exitInterrupted  = 130
	exitTerminated   = 143
)

// exitStatus is one row of the table that help, manual pages and tests show.
type exitStatus struct {
	Status  int
	Meaning string
	Codes   []fault.Code
}

// exitTable lists every status with the codes that end in it.
func exitTable() []exitStatus {
	return []exitStatus{
		{exitOK, "did what was asked (send: durably queued; send --wait: delivered)", nil},
		{exitBug, "a bug in ace; the report id says which run", nil},
		{exitUsage, "wrong usage or configuration; nothing was attempted", nil},
		{exitEmpty, "the answer is empty and --fail-empty was given", nil},
		{exitDeclined, "a confirmation was declined, or was needed and nobody could be asked", nil},
		{exitPermanent, "refused for good", []fault.Code{fault.InvalidPacket, fault.UnsupportedVersion, fault.WrongRecipient, fault.StaleTimestamp, fault.UnsupportedSchema, fault.InvalidBody, fault.DecryptionFailed, fault.UnknownPrekey, fault.ReplayHorizon, fault.RelayRejected, fault.InvalidArgument}},
		{exitNoPeer, "no such peer", []fault.Code{fault.UnknownPeer}},
		{exitNotAllowed, "not allowed", []fault.Code{fault.NotPermitted, fault.NotRegistered}},
		{exitNotAuthentic, "not authentic: do not go on", []fault.Code{fault.InvalidSignature, fault.InvalidAuthorization, fault.InvalidKEL, fault.KELConflict, fault.StalePeerBinding, fault.StaleDescriptor}},
		{exitRejected, "the peer rejected the message", []fault.Code{fault.DeliveryRejected}},
		{exitUnknownEnd, "retrying ended; the outcome is unknown", []fault.Code{fault.Expired}},
		{exitAddress, "the address policy refuses the relay", []fault.Code{fault.BlockedAddress}},
		{exitTransient, "a passing failure; run it again later", []fault.Code{fault.RelayUnavailable, fault.RelayProtocolError, fault.FetchFailed}},
		{exitTransientAt, "a passing failure with a time to wait (retry_after_s)", []fault.Code{relayapi.RateLimited, relayapi.RecipientInboxFull}},
		{exitDeadline, "the deadline passed; the work is queued and goes on", nil},
		{exitLocal, "a local failure", nil},
		{exitHeld, "another process holds what this one needs", []fault.Code{fault.LockBusy}},
		{exitNoIdentity, "no identity, or it does not open", []fault.Code{fault.IdentityUnavailable}},
		{exitStorage, "the disk or a file on it failed", []fault.Code{fault.StorageFailed}},
		{exitFull, "no room for more", []fault.Code{fault.ReceiverCapacity}},
		{exitThreadBusy, "a message on the thread is still under way", []fault.Code{fault.ThreadBusy}},
		{exitInterrupted, "interrupted (SIGINT) before the end", nil},
		{exitTerminated, "terminated (SIGTERM) before the end", nil},
	}
}

// The codes of failures that no protocol code names.
const (
	codeInternal    = "internal"
	codeDeadline    = "deadline"
	codeInterrupted = "interrupted"
	codeDeclined    = "declined"
	codeEmpty       = "empty"
	codeUnwell      = "unwell"
)

// statusError is an error that decides the exit status by itself, and the code
// where the cause has none.
type statusError struct {
	status int
	code   string
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// category is that of the tens digit of the status; where the status has none, it
// is something on this machine.
func (e *statusError) category() fault.Category {
	switch e.status / 10 {
	case exitPermanent / 10:
		return fault.Permanent
	case exitTransient / 10:
		return fault.Transient
	}
	return fault.Local
}

// usagef is an error of the command line or the configuration.
func usagef(format string, args ...any) error {
	return &statusError{exitUsage, "", fault.New(fault.InvalidArgument, format, args...)}
}

// exitOf returns the exit status of an error.
func exitOf(err error) int {
	if err == nil {
		return exitOK
	}
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	var e *fault.Error
	if errors.As(err, &e) && e.Code.Category() == fault.Transient && e.RetryAfter > 0 {
		return exitTransientAt
	}
	code := fault.CodeOf(err)
	if code == "" {
		return exitBug
	}
	for _, row := range exitTable() {
		for _, c := range row.Codes {
			if c == code {
				return row.Status
			}
		}
	}
	return exitPermanent // the codes of profile rules
}
