package loadgen

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// permitSeconds is the life of the permits, longer than any load.
const permitSeconds = 24 * 3600

// lane is the way from one sender to one recipient: a whole request, ready but
// for its message ID.
type lane struct {
	request   []byte
	counter   int // where the last 12 hex digits of the message ID begin
	recipient int // index
	full      bool
}

// newLane prepares sends from a sender to a recipient whose body has at least
// size bytes, and at most three more: base64 comes in fours.
func newLane(t target, from string, to *recipient, size int, now int64) (*lane, error) {
	permit, err := admission.IssuePermit(to.id, from, now, permitSeconds)
	if err != nil {
		return nil, err
	}
	messageID := suite.NewMessageID()
	payload := 3 * 16
	body := relayapi.SendBody(opaquePacket(from, to.id.ACEID(), messageID, payload, now), permit.Raw())
	if missing := size - len(body); missing > 0 {
		payload += 3 * ((missing + 3) / 4)
		body = relayapi.SendBody(opaquePacket(from, to.id.ACEID(), messageID, payload, now), permit.Raw())
	}
	if len(body) > size+3 {
		return nil, fault.New(fault.InvalidArgument, "a send has at least %d bytes, more than %d", len(body), size)
	}
	head := fmt.Sprintf("POST %s/v1/send HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		t.prefix, t.host, relayapi.MediaJSON, len(body))
	request := append([]byte(head), body...)
	return &lane{request: request, counter: bytes.Index(request, []byte(messageID)) + len(messageID) - counterDigits}, nil
}

// counterDigits end a message ID. The digits before them are the lane's own.
const counterDigits = 12

// number makes the request another packet by counting in its message ID.
func (l *lane) number(n int64) []byte {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	hex.Encode(l.request[l.counter:], b[8-counterDigits/2:])
	return l.request
}

// bodySize returns the bytes of the body.
func (l *lane) bodySize() int {
	return len(l.request) - bytes.Index(l.request, []byte("\r\n\r\n")) - 4
}

// opaquePacket is a packet of the right shape that nobody could open or verify.
func opaquePacket(from, to, messageID string, payload int, now int64) []byte {
	random := func(n int) wire.Value { return wire.NewString(wire.EncodeBase64(suite.RandomBytes(n))) }
	return wire.NewObject(
		wire.M("ace", wire.NewString(wire.Version)),
		wire.M("messageId", wire.NewString(messageID)),
		wire.M("from", wire.NewString(from)),
		wire.M("to", wire.NewString(to)),
		wire.M("timestamp", wire.NewInt(now)),
		wire.M("encryption", wire.NewObject(
			wire.M("prekey", wire.NewString(suite.Hex256(nil))),
			wire.M("kemCiphertext", random(wire.KEMCiphertextBytes)),
			wire.M("payload", random(payload)),
		)),
		wire.M("signature", wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object()),
	).Canonical()
}
