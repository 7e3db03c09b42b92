package interop

import (
	"encoding/hex"
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// packet reads the packet of an input.
func (a *args) packet() (*packet.Packet, error) {
	raw, ok, err := a.raw()
	if err != nil {
		return nil, err
	}
	if ok {
		return packet.Decode(raw)
	}
	return packet.DecodeValue(a.r.Value("packet"))
}

// evalPacketDecode decodes a packet (03#decoding).
func evalPacketDecode(a *args, _ int64) (wire.Value, error) {
	p, err := a.packet()
	if closed := a.close(); closed != nil {
		return wire.Value{}, closed
	}
	if err != nil {
		return wire.Value{}, err
	}
	return facts(
		str("messageId", p.MessageID),
		str("from", p.From),
		str("to", p.To),
		num("timestamp", p.Timestamp),
		str("prekeyId", p.Prekey),
		num("payloadLength", int64(len(p.Payload))),
		num("seq", p.Signature.Seq),
	), nil
}

// heldPrekey is a prekey of the recipient: a published one, or one offered to
// a peer.
type heldPrekey struct {
	prekey.Key
	offeredTo string // "" for a published one
}

// evalPacketOpen opens a packet as the identity self
// (interop#open-packet---from-agent-f---packet-p---out-r---now-n) and states
// what it holds and the secrets on the way.
func evalPacketOpen(a *args, now int64) (wire.Value, error) {
	p, decodeErr := a.packet()
	held := a.prekeys()
	find := func(id, from string) (prekey.Key, bool) {
		for _, k := range held {
			if k.ID == id {
				return k.Key, k.offeredTo == "" || k.offeredTo == from
			}
		}
		return prekey.Key{}, false
	}
	o := &opener{self: a.r.String("self"), senderKEL: a.r.Value("senderKel"), now: now, find: find}
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if decodeErr != nil {
		return wire.Value{}, decodeErr
	}
	opened, err := o.open(p)
	if err != nil {
		return wire.Value{}, err
	}
	key, _ := find(p.Prekey, p.From)
	secrets, err := packetSecrets(p, key)
	return facts(append(opened.members(),
		append(secrets, str("plaintextSha256", suite.Hex256(opened.plaintext)))...)...), err
}

func (a *args) prekeys() []heldPrekey {
	const most = 1 << 16
	var held []heldPrekey
	for i, item := range a.r.Array("prekeys", 0, most) {
		o := a.r.Element("prekeys", i, item)
		seed, err := suite.SeedFromBytes(decodeHexMember(o, "seed"))
		if err != nil {
			o.FailMember("seed", "%v", err)
			return nil
		}
		held = append(held, heldPrekey{prekey.NewKey(seed), optionalString(o, "offeredTo")})
		_ = o.Close() // the error is that of the input as well
	}
	return held
}

// members states what an opened packet holds, as open-packet reports it.
func (o *openedPacket) members() []wire.Member {
	members := []wire.Member{
		str("from", o.packet.From),
		str("messageId", o.packet.MessageID),
		str("type", o.content.Type),
		str("schemaDigest", o.content.SchemaDigest),
		wire.M("body", o.content.Body),
		str("prekeyId", packet.PrekeyID(o.content.Prekey)),
	}
	if o.content.ThreadID != "" {
		members = append(members, str("threadId", o.content.ThreadID))
	}
	return members
}

func packetSecrets(p *packet.Packet, key prekey.Key) ([]wire.Member, error) {
	secret, err := suite.NewDecapsulationKey(key.Seed).Decapsulate(p.KEMCiphertext)
	if err != nil {
		return nil, fault.Wrap(fault.DecryptionFailed, err)
	}
	header := packet.Header(p.From, p.To, p.MessageID, p.Timestamp, p.Prekey, p.KEMCiphertext)
	return []wire.Member{
		str("sharedSecret", hex.EncodeToString(secret)),
		str("headerSha256", suite.Hex256(header)),
		str("key", hex.EncodeToString(suite.PacketKey(secret, header))),
	}, nil
}

// evalPrivateContent reads private content (03#private-content), with check
// "installed" also against the core and text profiles.
func evalPrivateContent(a *args, _ int64) (wire.Value, error) {
	raw, isText, err := a.raw()
	if err != nil {
		return wire.Value{}, err
	}
	var v wire.Value
	if !isText {
		v = a.r.Value("content")
	}
	check := optionalString(a.r, "check")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if check != "" && check != "installed" {
		return wire.Value{}, fmt.Errorf("%w: check %q", errCannotEvaluate, check)
	}
	c, err := parseEither(raw, isText, v)
	if err == nil && check == "installed" {
		err = checkInstalled(c)
	}
	if err != nil {
		return wire.Value{}, err
	}
	return facts(str("type", c.Type), str("prekeyId", packet.PrekeyID(c.Prekey))), nil
}

func parseEither(raw []byte, isText bool, v wire.Value) (*packet.Content, error) {
	if isText {
		return packet.ParseContent(raw)
	}
	return packet.ParseContentValue(v)
}
