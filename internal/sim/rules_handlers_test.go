package sim

import (
	"fmt"

	"github.com/ace-toolkit/ace/core/store"
)

// ofHandlers is where it is said what handlers may rely on.
const ofHandlers = "ace help listen"

// longestDelay is the longest time between two attempts at a message, in seconds.
const longestDelay = 300

var handlerRules = []rule{
	{"a message is marked after its handler has succeeded, or by its owner", ofHandlers, marksAreEarned},
	{"a mark that was answered stays", ofHandlers, marksStay},
	{"attempts are at messages that have come and are not handled", ofHandlers, attemptsHaveMessages},
	{"an attempt that began is counted", ofHandlers, attemptsCount},
	{"the messages of a sender are attempted in order", ofHandlers, attemptsInOrder},
	{"the delay after a failure is that of the schedule", ofHandlers, failuresWait},
}

func marksAreEarned(h *host, before, after *view) string {
	was := before.handled()
	for key := range after.handled() {
		if !was[key] && !h.handlers.worked[key] && !h.handlers.acked[key] {
			return key.id + " is marked"
		}
	}
	return ""
}

func marksStay(h *host, before, after *view) string {
	is := after.handled()
	for key := range before.handled() {
		if !is[key] && !h.handlers.unmarked[key] {
			return key.id + " has lost its mark"
		}
	}
	for key := range h.handlers.marked {
		if !is[key] && !h.handlers.unmarked[key] {
			return key.id + " is not marked"
		}
	}
	return ""
}

func attemptsHaveMessages(_ *host, _, after *view) string {
	handled := after.handled()
	for key, row := range after.handlings {
		switch {
		case !after.message(key.from, key.id):
			return fmt.Sprintf("%s, which is not in the inbox, has %+v", key.id, row)
		case handled[key]:
			return fmt.Sprintf("%s, which is handled, has %+v", key.id, row)
		}
	}
	return ""
}

// attemptsCount: one that was granted is counted, whatever becomes of the process;
// one whose grant did not come back may be.
func attemptsCount(h *host, before, after *view) string {
	handled := after.handled()
	for key := range after.messagesByKey() {
		was, is := before.handlings[key].Attempts, after.handlings[key].Attempts
		if handled[key] || h.handlers.unmarked[key] || before.handled()[key] {
			continue
		}
		if is < was+h.handlers.begun[key] || is > was+h.handlers.calls[key] {
			return fmt.Sprintf("%s had %d attempts and has %d, after %d more of which %d were granted", key.id, was, is, h.handlers.calls[key], h.handlers.begun[key])
		}
		if row := after.handlings[key]; row.Failures > row.Attempts {
			return fmt.Sprintf("%s has %d failures of %d attempts", key.id, row.Failures, row.Attempts)
		}
	}
	return ""
}

// attemptsInOrder: when a message is attempted, all that came before it of its
// sender are handled or given up. They stay so, unless the owner takes the mark
// back.
func attemptsInOrder(h *host, before, after *view) string {
	waits := map[string]string{} // the oldest that waits in the end, by sender
	for _, m := range after.messages {
		key := received{m.Peer, m.MessageID}
		if h.handlers.begun[key] > 0 && waits[m.Peer] != "" {
			return fmt.Sprintf("%s is attempted, and %s waits before it", m.MessageID, waits[m.Peer])
		}
		if waits[m.Peer] == "" && !m.Handled && !after.handlings[key].GivenUp && !h.handlers.unmarked[key] {
			waits[m.Peer] = m.MessageID
		}
	}
	return ""
}

// failuresWait: 1 s after the first failure, twice as long after each further one,
// five minutes at most.
func failuresWait(h *host, before, after *view) string {
	for key := range h.handlers.failed {
		row := after.handlings[key]
		if after.handled()[key] || h.handlers.unmarked[key] || row.Failures <= before.handlings[key].Failures {
			continue
		}
		delay := int64(1)
		for n := 1; n < row.Failures && delay < longestDelay; n++ {
			delay *= 2
		}
		delay = min(delay, longestDelay)
		if waits := row.NextAttemptAt - h.clock(); waits > delay || waits < delay-(h.w.now-h.w.began) {
			return fmt.Sprintf("%s waits %d s after %d failures", key.id, waits, row.Failures)
		}
	}
	return ""
}

func (v *view) messagesByKey() map[received]store.Message {
	list := map[received]store.Message{}
	for _, m := range v.messages {
		list[received{m.Peer, m.MessageID}] = m
	}
	return list
}

// handled are the messages with the mark.
func (v *view) handled() map[received]bool {
	list := map[received]bool{}
	for _, m := range v.messages {
		if m.Handled {
			list[received{m.Peer, m.MessageID}] = true
		}
	}
	return list
}
