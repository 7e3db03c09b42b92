package keystore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

var containerPass = []byte("correct horse")

// container seals a content at the least cost.
func container(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	head := containerHead{kind: kindBackup, aceID: wire.ACEID(strings.Repeat("ab", 32)), createdAt: 5, cost: cost{n: minScryptN, r: 8, p: 1}}
	w, err := newContainer(&b, head, containerPass)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 7, chunkBytes, len(content)} { // in writes of several sizes
		n := min(size, len(content))
		if _, err := w.Write(content[:n]); err != nil {
			t.Fatal(err)
		}
		content = content[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openAll(file []byte) ([]byte, error) {
	r, err := openContainer(bytes.NewReader(file), kindBackup, containerPass)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestContainer(t *testing.T) {
	for _, size := range []int{0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3*chunkBytes + 5} {
		content := bytes.Repeat([]byte("x"), size)
		file := container(t, content)
		if got, err := openAll(file); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %d came back, %v", size, len(got), err)
		}
		if size > 16 && bytes.Contains(file, content[:16]) {
			t.Errorf("%d bytes: the content stands in the file", size)
		}
	}
}

// chunksOf splits a container into its head and its chunks.
func chunksOf(t *testing.T, file []byte) (head []byte, chunks [][]byte) {
	t.Helper()
	at := bytes.IndexByte(file, '\n') + 1
	head, file = file[:at], file[at:]
	for len(file) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(file))
		chunks, file = append(chunks, file[:n]), file[n:]
	}
	return head, chunks
}

// Whatever is done to a container, it does not pass for whole.
func TestContainerDamage(t *testing.T) {
	file := container(t, bytes.Repeat([]byte("0123456789abcdef"), 3*chunkBytes/16))
	head, chunks := chunksOf(t, file)
	if len(chunks) != 3 {
		t.Fatalf("%d chunks", len(chunks))
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	flip := func(at int) []byte {
		b := bytes.Clone(file)
		b[at] ^= 1
		return b
	}
	for name, bad := range map[string][]byte{
		"empty":           nil,
		"no head":         file[len(head):],
		"head alone":      head,
		"last left out":   join(head, chunks[0], chunks[1]),
		"middle left out": join(head, chunks[0], chunks[2]),
		"swapped":         join(head, chunks[1], chunks[0], chunks[2]),
		"twice":           join(head, chunks[0], chunks[0], chunks[1], chunks[2]),
		"more behind":     join(file, []byte("x")),
		"last twice":      join(file, chunks[2]),
		"cut":             file[:len(file)-1],
		"another time":    bytes.Replace(file, []byte(`"createdAt":5`), []byte(`"createdAt":6`), 1),
		"another salt":    flip(bytes.Index(file, []byte(`"salt":"`)) + 10),
		"length":          flip(len(head)),
		"first byte":      flip(len(head) + 4),
		"last byte":       flip(len(file) - 1),
		"spaced head":     bytes.Replace(file, []byte(`{"aceId"`), []byte(`{ "aceId"`), 1),
		"endless cost":    bytes.Replace(file, []byte(`"n":16384`), []byte(`"n":1073741824`), 1),
		"other kind":      bytes.Replace(file, []byte(kindBackup), []byte("identity-bakery"), 1),
	} {
		if bytes.Equal(bad, file) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := openAll(bad); fault.CodeOf(err) != fault.StorageFailed && fault.CodeOf(err) != fault.IdentityUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openContainer(bytes.NewReader(file), kindBackup, []byte("wrong")); !errors.Is(err, fault.IdentityUnavailable) {
		t.Errorf("wrong passphrase: %v", err)
	}
}
