package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
)

// message is what a client of another system stores: as much text as the body
// of a send, and as dense, since such a body is nearly all base64.
type message struct {
	text   []byte
	number uint64
}

func newMessage(size int) *message {
	random := make([]byte, size)
	rand.Read(random)
	return &message{text: []byte(base64.StdEncoding.EncodeToString(random))[:size]}
}

// next returns a message unlike the ones before. It is valid until the next.
func (m *message) next() []byte {
	m.number++
	if len(m.text) >= 8 {
		binary.BigEndian.PutUint64(m.text, m.number)
	}
	return m.text
}
