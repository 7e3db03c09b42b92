// Package keystore keeps the secrets of one identity in files that only the
// owner can read.
//
// The folder of an identity holds kel.json (its key event log), root.key (the
// root seed) and agent.key (the signing seed and the vault key, all that a
// running endpoint needs). The next root is not in that folder: it is a file
// of its own at a path the owner chooses, because it has to be kept apart from
// the root (01#rotation-and-recovery).
//
// [Create] makes an identity, [Open] finds it again and [Store.Unlock] gives
// an endpoint what it signs with. [Store.Delegate], [Store.Rotate] and
// [Store.Recover] append to the log and replace keys, all files or none,
// whenever the process dies. A key file is sealed under a passphrase when
// there is one; the parameters of the derivation stand in the file.
//
// Codes: identity_unavailable for a key that is missing, does not open or does
// not belong to the log, storage_failed for a file that cannot be read or
// trusted, lock_busy for a store that another process is changing, and
// invalid_argument for what the caller asks wrongly.
package keystore
