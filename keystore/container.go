package keystore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// A container is a file sealed under a passphrase: one line of canonical JSON,
// the head, then the content in chunks. Each chunk is the length of its sealed
// form in 4 bytes, the greatest first, and that form, bound to the head, to its
// number and to whether it is the last. So none can be changed, moved, left out
// or added, and the end cannot be cut off.
const (
	chunkBytes     = 64 << 10
	sealedOverhead = suite.GCMNonceBytes + suite.GCMTagBytes
	headLimit      = 1 << 12
	chunkLabel     = "ace/container/1"
)

// ErrNoBackup is in the chain of the error, storage_failed, of a file that does not
// begin as a backup.
var ErrNoBackup = errors.New("this is no backup of an identity")

// containerHead is what a container says openly of itself.
type containerHead struct {
	kind      string
	aceID     string
	createdAt int64
	cost      cost
	salt      []byte
}

func (h containerHead) encode() []byte {
	return append(wire.NewObject(
		wire.M("ace_container", wire.NewString(h.kind)),
		wire.M("version", wire.NewInt(1)),
		wire.M("aceId", wire.NewString(h.aceID)),
		wire.M("createdAt", wire.NewInt(h.createdAt)),
		wire.M("kdf", h.cost.object(h.salt)),
	).Canonical(), '\n')
}

func decodeHead(line []byte, kind string) (h containerHead, err error) {
	v, err := wire.Parse(line, wire.MaxJSONDepth)
	if err != nil {
		return h, err
	}
	r := wire.NewReader(v, "container")
	h.kind = r.String("ace_container")
	if h.kind != kind {
		r.FailMember("ace_container", "is %.40q, not %q", h.kind, kind)
	}
	if r.Int("version") != 1 {
		r.FailMember("version", "made by a newer program")
	}
	h.aceID, h.createdAt = r.ACEID("aceId"), r.Int("createdAt")
	kdf := r.Object("kdf")
	h.cost, h.salt = readCost(kdf)
	_ = kdf.Close() // the error is r's as well
	if err := r.Close(); err != nil {
		return h, err
	}
	if !bytes.Equal(line, h.encode()) {
		return h, errors.New("the head is not canonical")
	}
	return h, nil
}

// chunk is the name of a chunk, to which it is bound.
func chunk(head string, n int64, last bool) []byte {
	end := ""
	if last {
		end = "last"
	}
	return []byte(wire.EncodePayload(chunkLabel, head, wire.Decimal(n), end))
}

// containerWriter seals what is written to it.
type containerWriter struct {
	w       io.Writer
	key     []byte
	head    string // hex digest of the head
	n       int64
	pending []byte
}

// newContainer writes the head, with a fresh salt.
func newContainer(w io.Writer, h containerHead, passphrase []byte) (*containerWriter, error) {
	h.salt = suite.RandomBytes(saltBytes)
	key, err := h.cost.derive(passphrase, h.salt)
	if err != nil {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	text := h.encode()
	if _, err := w.Write(text); err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	return &containerWriter{w: w, key: key, head: suite.Hex256(text)}, nil
}

func (c *containerWriter) Write(p []byte) (written int, err error) {
	written = len(p)
	for len(p) > 0 {
		if len(c.pending) == chunkBytes { // there is more, so this is not the last
			if err := c.flush(false); err != nil {
				return 0, err
			}
		}
		n := min(chunkBytes-len(c.pending), len(p))
		c.pending, p = append(c.pending, p[:n]...), p[n:]
	}
	return written, nil
}

func (c *containerWriter) flush(last bool) error {
	sealed, err := suite.Seal(c.key, c.pending, chunk(c.head, c.n, last))
	clear(c.pending)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	c.pending, c.n = c.pending[:0], c.n+1
	text := append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...)
	_, err = c.w.Write(text)
	return fault.Wrap(fault.StorageFailed, err)
}

// Close seals the last chunk and clears the key.
func (c *containerWriter) Close() error {
	defer clear(c.key)
	return c.flush(true)
}

// containerReader opens a container, chunk by chunk. What it returns is
// authentic; that nothing is missing is known with the io.EOF.
type containerReader struct {
	r     *bufio.Reader
	head  containerHead
	key   []byte
	bound string // hex digest of the head
	n     int64
	rest  []byte // of the chunk being read
	ended bool
}

// openContainer reads the head and derives the key. Codes: storage_failed for
// what is no container of the kind, identity_unavailable.
func openContainer(r io.Reader, kind string, passphrase []byte) (*containerReader, error) {
	c := &containerReader{r: bufio.NewReaderSize(r, headLimit)}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, ErrNoBackup)
	}
	line = bytes.Clone(line) // the buffer is read into again
	if c.head, err = decodeHead(line, kind); err != nil {
		return nil, fault.Wrap(fault.StorageFailed, fmt.Errorf("%w: %w", ErrNoBackup, err))
	}
	c.bound = suite.Hex256(line)
	if c.key, err = c.head.cost.derive(passphrase, c.head.salt); err != nil {
		return nil, fault.Wrap(fault.IdentityUnavailable, err)
	}
	if err := c.next(); err != nil {
		return nil, err
	}
	return c, nil
}

// next opens the next chunk.
func (c *containerReader) next() error {
	sealed, err := c.sealed()
	if err != nil {
		return fault.Wrapf(fault.StorageFailed, err, "chunk %d of the backup", c.n)
	}
	_, peek := c.r.Peek(1)
	c.ended = errors.Is(peek, io.EOF)
	c.rest, err = suite.Open(c.key, sealed, chunk(c.bound, c.n, c.ended))
	switch {
	case err != nil && c.n == 0:
		return fault.New(fault.IdentityUnavailable, "the passphrase is wrong or the backup is damaged")
	case err != nil:
		return fault.New(fault.StorageFailed, "the backup is damaged or cut off at chunk %d", c.n)
	}
	c.n++
	return nil
}

func (c *containerReader) sealed() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < sealedOverhead || n > chunkBytes+sealedOverhead {
		return nil, errors.New("its length is out of range")
	}
	sealed := make([]byte, n)
	_, err := io.ReadFull(c.r, sealed)
	return sealed, err
}

func (c *containerReader) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.ended {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest)
	clear(c.rest[:n])
	c.rest = c.rest[n:]
	return n, nil
}

// Close clears the key.
func (c *containerReader) Close() { clear(c.key) }
