package handler

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ace-toolkit/ace/core"
)

// Variables are what a handler finds in its environment about its message. None
// is text that a peer may choose freely.
func Variables() []string {
	return []string{
		"ACE_MESSAGE_ID", "ACE_FROM", "ACE_TYPE", "ACE_THREAD_ID", "ACE_SENT_AT", "ACE_RECEIVED_AT", "ACE_IDENTITY", "ACE_ATTEMPT",
	}
}

// scrubbed returns an environment without what leads to a passphrase, and without
// what is said of another message.
func scrubbed(environ []string) []string {
	var kept []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		secret := strings.HasPrefix(name, "ACE_") && strings.Contains(name, "PASSPHRASE")
		if secret || name == "CREDENTIALS_DIRECTORY" || slices.Contains(Variables(), name) {
			continue
		}
		kept = append(kept, v)
	}
	return kept
}

// environment returns what a run is told of its message.
func environment(base []string, identity string, m core.Message, attempt int) []string {
	env := append(slices.Clone(base),
		"ACE_MESSAGE_ID="+m.MessageID,
		"ACE_FROM="+m.From,
		"ACE_TYPE="+m.Type,
		"ACE_SENT_AT="+strconv.FormatInt(m.SentAt, 10),
		"ACE_RECEIVED_AT="+strconv.FormatInt(m.ReceivedAt, 10),
		"ACE_IDENTITY="+identity,
		"ACE_ATTEMPT="+strconv.Itoa(attempt),
	)
	if isPlain(m.ThreadID) {
		env = append(env, "ACE_THREAD_ID="+m.ThreadID)
	}
	return env
}

// plainMost is the length of the longest thread ID that a handler finds in its
// environment.
const plainMost = 128

// isPlain reports whether a thread ID can be nothing but one. 02#identifiers lets
// it be any text, which a script might pass on to a shell: such a one is in the
// JSON of the message alone.
func isPlain(threadID string) bool {
	return threadID != "" && len(threadID) <= plainMost && !strings.ContainsFunc(threadID, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r))
	}) && threadID[0] != '-'
}
