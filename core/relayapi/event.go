package relayapi

import (
	"github.com/ace-toolkit/ace/core/wire"
)

// The event types of 07#listen.
const (
	EventConnected = "connected"
	EventCatchup   = "catchup"
	EventMessage   = "message"
	EventDrain     = "drain"
)

// Event returns the bytes of a stream event without an id: connected or drain.
// It carries data, because one without is never dispatched (07#client-rules).
func Event(event string) []byte {
	return []byte("event: " + event + "\ndata: {}\n\n")
}

// PacketEvent returns the bytes of a catchup or message event from the
// canonical JSON of the packet, which has no line end (07#listen).
func PacketEvent(event, streamID string, packet []byte) []byte {
	return AppendPacketEvent(make([]byte, 0, len(packet)+EventOverhead), event, streamID, packet)
}

// EventOverhead is an upper bound of the bytes that [PacketEvent] adds to a
// packet.
const EventOverhead = 128

// AppendPacketEvent appends [PacketEvent] to b.
func AppendPacketEvent(b []byte, event, streamID string, packet []byte) []byte {
	b = append(b, "id: "...)
	b = append(b, streamID...)
	b = append(b, "\nevent: "...)
	b = append(b, event...)
	b = append(b, "\ndata: {\"packet\":"...)
	b = append(b, packet...)
	return append(b, "}\n\n"...)
}

// Heartbeat returns the bytes of a comment line, which keeps a stream alive.
func Heartbeat() []byte { return []byte(":\n\n") }

// ParsePacketEvent parses the id and data of a catchup or message event.
// Code: relay_protocol_error.
func ParsePacketEvent(id string, data []byte) (Entry, error) {
	if !wire.IsStreamID(id) {
		return Entry{}, errResponse("the event has no stream ID")
	}
	v, err := parseResponse(data)
	if err != nil {
		return Entry{}, err
	}
	packet, ok := v.Get("packet")
	if !ok {
		return Entry{}, errResponse("the event has no packet")
	}
	return Entry{StreamID: id, Packet: packet}, withinDepth(packet, "a packet")
}
