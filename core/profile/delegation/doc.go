// Package delegation is the official profile ace:delegation:1: signed
// credentials by which one identity declares that another acts on its behalf,
// and the rule for the message that hands one over
// (delegation#delegation-profile-acedelegation1).
//
// A credential grants no right of any kind; who relies on one looks its issuer
// up first. Start at [Decode] and [Credential.Verify].
package delegation
