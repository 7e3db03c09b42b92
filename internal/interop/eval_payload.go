package interop

import (
	"encoding/hex"
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalPayload states the bytes that get hashed, signed or encrypted
// (02#signatures, 01#key-event-log, 03#encryption).
func evalPayload(a *args, _ int64) (wire.Value, error) {
	ops := map[string]func(*args) (wire.Value, error){
		"encodePayload":   evalEncodePayload,
		"eventBytes":      evalEventBytes,
		"keyCommitment":   evalKeyCommitment,
		"signingMessage":  evalSigningMessage,
		"packetHeader":    evalPacketHeader,
		"packetKey":       evalPacketKey,
		"encryptPacket":   evalEncryptPacket,
		"conversationKey": evalConversationKey,
	}
	op := a.r.String("op")
	eval, ok := ops[op]
	if !ok {
		return wire.Value{}, fmt.Errorf("%w: op %q", errCannotEvaluate, op)
	}
	return eval(a)
}

func evalEncodePayload(a *args) (wire.Value, error) {
	items := a.r.Array("fields", 0, 64)
	fields := make([]string, len(items))
	for i, item := range items {
		f := a.r.Element("fields", i, item)
		if f.Has("utf8") {
			fields[i] = f.String("utf8")
		} else {
			fields[i] = string(decodeHexMember(f, "hex"))
		}
		_ = f.Close() // the error is a's as well
	}
	return facts(hexadecimal("hex", wire.EncodePayload(fields...))), a.close()
}

func evalEventBytes(a *args) (wire.Value, error) {
	event := a.r.Value("event")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	b, err := kel.EventBytes(event)
	if err != nil {
		return wire.Value{}, err
	}
	answer := facts(hexadecimal("hex", b), str("sha256", suite.Hex256(b)))
	if t, _ := event.Get("t"); t.Equal(wire.NewString(kel.Inception)) {
		answer = answer.With("aceId", wire.NewString(wire.ACEID(suite.Hex256(b))))
	}
	return answer, nil
}

func evalKeyCommitment(a *args) (wire.Value, error) {
	scheme, key := a.r.String("scheme"), a.base64("publicKey")
	return facts(str("hex", kel.Commitment(scheme, key))), a.close()
}

// evalSigningMessage states M for one action of 02#signing-actions.
func evalSigningMessage(a *args) (wire.Value, error) {
	action, aceID, timestamp := a.r.String("action"), a.r.String("aceId"), a.r.Int("timestamp")
	seqOrEmpty := ""
	if v := a.r.Value("seq"); v.Kind() != wire.Null {
		seqOrEmpty = wire.Decimal(a.r.Int("seq"))
	}
	params := a.r.Object("params")
	payload, payloadErr := actionPayload(action, params)
	_ = params.Close() // the error is a's as well
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if payloadErr != nil {
		return wire.Value{}, payloadErr
	}
	m := kel.Message(aceID, timestamp, seqOrEmpty, payload)
	return facts(
		str("context", action),
		str("payloadSha256", suite.Hex256(payload)),
		num("messageLength", int64(len(m))),
		str("messageSha256", suite.Hex256(m)),
		hexadecimal("messageHex", m),
	), nil
}

func evalPacketHeader(a *args) (wire.Value, error) {
	f := a.r.Object("fields")
	header := packet.Header(f.String("from"), f.String("to"), f.String("messageId"), f.Int("timestamp"),
		f.String("prekeyId"), f.Base64("kemCiphertext", 0, wire.MaxPacketBytes))
	_ = f.Close() // the error is a's as well
	return facts(hexadecimal("hex", header)), a.close()
}

func evalPacketKey(a *args) (wire.Value, error) {
	key := suite.PacketKey(a.hex("sharedSecret"), a.hex("header"))
	return facts(hexadecimal("hex", key)), a.close()
}

// evalEncryptPacket encrypts with the randomness given (03#encryption).
func evalEncryptPacket(a *args) (wire.Value, error) {
	from, to, messageID, timestamp := a.r.String("from"), a.r.String("to"), a.r.String("messageId"), a.r.Int("timestamp")
	prekey, plaintext, eseed, nonce := a.base64("prekey"), a.hex("plaintext"), a.hex("eseed"), a.hex("nonce")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	key, err := suite.ParseEncapsulationKey(prekey)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	e, err := packet.EncryptDeterministic(from, to, messageID, timestamp, plaintext, key, eseed, nonce)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(
		str("prekeyId", e.PrekeyID),
		base64("kemCiphertext", e.KEMCiphertext),
		hexadecimal("sharedSecret", e.SharedSecret),
		str("headerSha256", suite.Hex256(e.Header)),
		hexadecimal("key", e.Key),
		base64("payload", e.Payload),
	), nil
}

func evalConversationKey(a *args) (wire.Value, error) {
	x, y := a.r.String("a"), a.r.String("b")
	return facts(str("hex", packet.PairKey(x, y))), a.close()
}

// actionPayload builds the payload of one action of 02#signing-actions.
func actionPayload(action string, p *wire.Reader) ([]byte, error) {
	switch action {
	case kel.ActionKEL:
		return kel.EventBytes(p.Value("event"))
	case kel.ActionPacket:
		return packet.SignaturePayload(p.String("to"), p.String("messageId"), p.String("prekeyId"),
			p.Base64("kemCiphertext", 0, wire.MaxPacketBytes), p.Base64("payload", 0, wire.MaxPacketBytes)), nil
	case kel.ActionAgentDescriptor, kel.ActionDeliveryPermit, kel.ActionCardRecord, "ace:delegation:1":
		object := p.Value("object")
		if object.Kind() != wire.Object {
			return nil, fmt.Errorf("%w: object is %s", errCannotEvaluate, object.Kind())
		}
		return object.Without("signature").Canonical(), nil
	case kel.ActionRegisterRequest:
		return wire.EncodePayload(p.String("lastHashHex"), p.String("audience")), nil
	}
	return headerPayload(action, p)
}

// headerPayload builds the payload of a header-authenticated action
// (07#authentication).
func headerPayload(action string, p *wire.Reader) ([]byte, error) {
	audience, nonce, args := p.String("audience"), p.String("nonce"), p.Object("args")
	var payload []byte
	switch action {
	case kel.ActionListen:
		payload = relayapi.ListenPayload(args.String("since"))
	case kel.ActionInbox:
		payload = relayapi.InboxPayload(args.String("since"), args.Int("limit"))
	case kel.ActionInboxAck:
		payload = relayapi.AckPayload(args.String("through"))
	case kel.ActionBlock:
		payload = relayapi.BlockPayload(args.String("peer"), args.Bool("blocked"), args.Int("revision"))
	case kel.ActionUnregister:
		payload = relayapi.UnregisterPayload()
	case kel.ActionWake:
		payload = relayapi.WakeDeletePayload()
		if args.Has("gateway") {
			payload = relayapi.WakePayload(args.String("gateway"), args.String("token"))
		}
	default:
		return nil, fmt.Errorf("%w: action %q", errCannotEvaluate, action)
	}
	_ = args.Close() // the error is p's as well
	return relayapi.AuthPayload(audience, nonce, payload), nil
}

func hexadecimal(key string, b []byte) wire.Member { return str(key, hex.EncodeToString(b)) }
