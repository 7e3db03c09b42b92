// Package relaysvc is the relay: the HTTP service of 07 over the store of
// relaysvc/relaydb. It keeps opaque packets for registered agents and serves
// their signed documents; it never sees plaintext and clients trust it with
// nothing but availability.
//
// [New] opens the store, [Server.Serve] answers until its context ends and
// then drains, [Server.Close] closes the store. A route is one method in the
// file of its subject (routes.go lists them); it checks in the order of the
// chapter and returns an error with one of the codes of 07#errors, which
// errors.go alone turns into a response. Decisions over stored state are
// methods of relaydb, one transaction each.
//
// The clock is read once for a request. Logs hold no packets, identities or
// addresses.
package relaysvc
