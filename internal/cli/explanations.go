package cli

import "github.com/ace-toolkit/ace/core/delivery"

// explanation says what a code means and what to do about it. The table is the
// source of `ace explain`, of hints and of the manual.
type explanation struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
	Do      string `json:"do"`
}

// explanationOf returns the explanation of a code.
func explanationOf(code string) (explanation, bool) {
	for _, e := range explanations() {
		if e.Code == code {
			return e, true
		}
	}
	return explanation{}, false
}

func explanations() []explanation {
	return []explanation{
		{"invalid_argument", "an argument, a setting or a request is malformed", "correct the value that the message names"},
		{"invalid_packet", "the packet does not have the form of chapter 03", "ask the sender to send it again with a conforming program"},
		{"unsupported_version", "the packet is of a protocol version other than 1", "update ace, or ask the sender to use version 1"},
		{"wrong_recipient", "the packet is addressed to another identity", "open it as the identity named in its \"to\""},
		{"invalid_signature", "a signature does not verify", "do not trust the object; get it again from its author"},
		{"invalid_authorization", "a signed document, permit or registration does not verify", "do not trust the object; look the peer up again with ace lookup"},
		{"stale_timestamp", "the signed time is outside its window", "check both clocks: they may differ by at most 300 seconds"},
		{"stale_peer_binding", "the signature belongs to a signing key that is no longer, or not yet, in force", "look the peer up again with ace lookup; if it is your own identity, publish again"},
		{"decryption_failed", "the packet does not open under the key it names", "ask the sender to send it again"},
		{"unknown_prekey", "the packet is encrypted to a key that is not held (any more)", "nothing: the sender retries with the published key"},
		{"unsupported_schema", "the message type or its schema is not installed at the receiver", "compare ace profile list on both sides; enable it with ace profile install ID"},
		{"invalid_body", "the message body does not match its schema or rules", "correct the body; ace profile show prints the schema"},
		{"replay_horizon", "the packet is older than what the receiver can still tell from a replay", "nothing: the sender's next retry carries a fresh time"},
		{"invalid_kel", "the key event log is malformed or has no usable signing key", "do not trust the identity until its owner publishes a valid log"},
		{"kel_conflict", "the key event log contradicts the one pinned for this identity", "stop and ask the peer over another channel which log is theirs; your own identity you take back with ace identity recover, unless another copy of yours has gone on"},
		{"unknown_peer", "nobody by that name is registered there, or their descriptor has expired", "check the address; ask the peer to run ace publish"},
		{"not_registered", "the identity is not registered at the relay", "run ace publish"},
		{"not_permitted", "the peer has not admitted you, or does not take requests from strangers", "run ace connect PEER; where the peer is closed to strangers, one of you invites the other: ace contact invite PEER"},
		{"relay_rejected", "the relay refused the request", "read the relay's error in the message; ace explain knows its codes too"},
		{"blocked_address", "the peer names a relay on a private or reserved address", "ask the peer to use a public relay; --allow-loopback is for development only"},
		{"delivery_rejected", "the recipient answered with a rejection", "read remote_code; ace explain knows its codes too"},
		{"expired", "the message was retried for seven days without a receipt; whether it was processed is unknown", "ask the peer, then send it again if need be"},
		{"stale_descriptor", "a newer descriptor or card record is already known", "check that no other device publishes the same identity, and the clock"},
		{"relay_unavailable", "the relay does not answer, or asks to wait", "run it again later; queued messages are retried"},
		{"relay_protocol_error", "the relay's answer is not one the protocol allows", "check that the URL is that of an ACE relay"},
		{"fetch_failed", "something could not be fetched", "run it again later"},
		{"storage_failed", "the disk or a file on it failed, or is open to other users", "do what the message says, or see whether the disk is full or read-only; then run it again"},
		{"identity_unavailable", "there is no identity, or its keys do not open", "run ace init, or name the identity with --as and its passphrase source"},
		{"lock_busy", "another process holds what this one needs", "wait for the process that the message names, or stop it"},
		{"receiver_capacity", "there is no room for more messages", "handle or remove old messages, then run it again"},
		{"thread_busy", "a message on this thread still waits for its receipt", "wait for the receipt: ace outbox list shows it"},
		{"invalid_registration", "the relay found the registration request malformed", "update ace; if it persists, report it"},
		{"stale_seq", "the relay knows a newer key event log of this identity", "use the newest copy of the identity"},
		{"future_seq", "the relay does not know the newest key event log of this identity yet", "run ace publish"},
		{"not_found", "the relay has no such route", "check that the URL is that of an ACE relay"},
		{"replay", "the relay has seen this request before", "run it again"},
		{"identity_conflict", "a later registration of this identity exists, or the clock went back", "check the clock, then run ace publish again"},
		{"handle_taken", "the handle belongs to another identity, or is reserved", "choose another handle"},
		{"stale_revision", "the relay holds a later decision about this block", "decide again"},
		{"limit_exceeded", "there is no room for more: at the relay, blocks of this identity; of the commerce profile, open threads with the peer", "unblock somebody, or bring a thread to its end, first"},
		{"wrong_party", "the commerce message is on a thread between others", "answer on the thread on which you were asked: ace thread list"},
		{"transition_not_allowed", "the commerce thread does not take this message now", "see which messages it takes: ace thread show THREAD"},
		{"wrong_role", "the commerce message is for the other party to send", "see whose turn it is: ace thread show THREAD"},
		{"bad_reference", "the commerce message refers to another message than the thread asks for", "leave the reference out: ace send fills it in for a --thread"},
		{"payload_too_large", "the request is larger than the relay takes", "send less"},
		{"rate_limited", "the relay asks to slow down", "wait as long as retry_after_s says"},
		{"recipient_inbox_full", "the recipient's queue at the relay is full", "wait: the message is retried"},
		{"internal_error", "the relay failed", "run it again later"},
		{reasonDeniedByPolicy, "your own policy refuses the message, or keeps what has come in quarantine", "see the rules under [policy]: ace help config; ace quarantine list shows what came"},
		{delivery.ReasonDenied, "you were asked about the message, and denied it: nothing of it left", "send it again if that was a mistake"},
		{delivery.ReasonApprovalExpired, "the message waited for your approval until its time was over: nothing of it left", "send it again, and approve it in time; approval_ttl in the configuration is the time"},
		{delivery.ReasonBlocked, "you have blocked the peer, so the message waits", "unblock the peer with ace contact unblock, or give the message up with ace outbox abandon"},
		{delivery.ReasonNoPermit, "no valid permit of the peer is held, so the message waits for one", "nothing, where the peer renews it by itself; else run ace why PEER"},
		{delivery.ReasonNoIdentity, "the identity has no signing key in force, so the message waits", "delegate to a new key with ace identity delegate"},
		{codeInternal, "a bug in ace", "report it with the report id"},
		{handlerFailed, "the command of ace listen --exec did not exit with 0", "see what it printed, and ace inbox list --unhandled; it runs again by itself"},
		{codeDeadline, "the time of --timeout passed; what is queued is still delivered", "run ace pull later, or wait longer with --timeout"},
		{codeInterrupted, "a signal ended the command before its work was done", "nothing that was queued is lost: see ace outbox list before you run it again"},
		{codeDeclined, "a question was answered with no, or nobody could be asked", "give --yes to answer yes without a question"},
		{codeUnwell, "ace doctor found warnings or problems", "do what stands below each of them"},
		{codeEmpty, "there is nothing to show, and --fail-empty was given", "leave --fail-empty out where that is no failure"},
	}
}
