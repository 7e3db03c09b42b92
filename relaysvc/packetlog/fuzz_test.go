package packetlog_test

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// FuzzRecover gives the only segment any content after its header and compares
// what is recovered with another reading of the format. With mend, the
// checksums are made right first where there is something to sum.
func FuzzRecover(f *testing.F) {
	dir := f.TempDir()
	l := begin(f, dir, 0, packetlog.Options{})
	add(f, l, "one")
	add(f, l, body("two", 40), "", "three")
	add(f, l, "", "")
	whole := readFile(f, lastPath(f, l))[segmentHeader:]
	must(f, l.Close())
	must(f, os.Remove(segmentPath(dir, storeID, 0)))

	f.Add([]byte{}, false)
	f.Add(whole, false)
	f.Add(whole[:len(whole)-1], false)
	f.Add(slices.Concat(whole, whole), false)
	f.Add(slices.Concat(whole, make([]byte, 100)), true)
	f.Add(make([]byte, groupHeader), true)
	for at := 0; at < len(whole); at += 3 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 0xff
		f.Add(damaged, at%2 == 0)
	}
	for _, lengths := range [][2]uint32{{0, 0}, {1<<32 - 1, 1<<32 - 1}, {1 << 31, 9}, {0, 9}, {3, 1 << 30}} {
		claims := slices.Clone(whole)
		binary.BigEndian.PutUint32(claims[16:], lengths[0])
		binary.BigEndian.PutUint32(claims[20:], lengths[1])
		f.Add(claims, true)
	}
	// Frames that leave some of the bodies, that are cut short, that say more.
	for _, c := range []struct {
		size, said, frames uint32
	}{{3, 0, frame}, {10, 0, frame - 1}, {10, 9, frame}, {10, 0, frame + 3}, {11, 0, frame}} {
		g := make([]byte, groupHeader+10)
		binary.BigEndian.PutUint32(g[16:], 10)
		binary.BigEndian.PutUint32(g[20:], c.frames)
		binary.BigEndian.PutUint32(g[24:], 1)
		g = binary.BigEndian.AppendUint32(g, c.size)
		g = append(g, 0, 0, 0, 0)
		g = binary.BigEndian.AppendUint16(g, uint16(c.said))
		f.Add(append(g, 0, 0, 0)[:groupHeader+10+c.frames], true)
	}

	f.Fuzz(func(t *testing.T, content []byte, mend bool) {
		if len(content) > 64<<10 {
			return
		}
		if mend {
			content = mended(content)
		}
		dir := t.TempDir()
		path := segmentPath(dir, storeID, 0)
		writeFile(t, path, slices.Concat(headerOf(storeID, 0), content))
		want, size := reading(content)

		l := open(t, dir, packetlog.Options{})
		var got []packet
		var dropped int64
		var err error
		allocated := allocations(func() {
			dropped, err = l.Recover(0, func(r packetlog.Record) error {
				if r.Place < segmentHeader || r.Size < 0 || r.Place+r.Size > segmentHeader+int64(len(content)) {
					t.Fatalf("%d bytes at %d of a file of %d", r.Size, r.Place, len(content))
				}
				body := content[r.Place-segmentHeader:][:r.Size]
				got = append(got, packet{r.Place, string(r.Said), string(body)})
				return nil
			})
		})
		must(t, err)
		same(t, "recovered", got, want)
		if dropped != int64(len(content))-size || l.End() != segmentHeader+size {
			t.Errorf("%d bytes dropped, end %d; want %d and %d", dropped, l.End(), int64(len(content))-size, segmentHeader+size)
		}
		if allocated > uint64(1<<20+64*len(content)) {
			t.Errorf("%d bytes allocated for %d", allocated, len(content))
		}
		readable(t, l, want)
		more := add(t, l, "more")
		must(t, l.Close())
		again, _ := recovered(t, filepath.Dir(path), 0)
		same(t, "appended", again, slices.Concat(want, more))
	})
}

// mended returns the content with right checksums of the groups at its
// beginning, as far as their lengths make sense.
func mended(content []byte) []byte {
	content = slices.Clone(content)
	for at := 0; ; {
		g, next := groupAt(content, at)
		if g == nil {
			return content
		}
		bodies, frames := g[groupHeader:][:next.bodies], g[groupHeader+next.bodies:]
		for len(frames) >= frame {
			size, said := int(binary.BigEndian.Uint32(frames)), int(binary.BigEndian.Uint16(frames[8:]))
			if size+said > len(bodies) {
				break
			}
			binary.BigEndian.PutUint32(frames[4:], sum(bodies[:size+said]))
			bodies, frames = bodies[size+said:], frames[frame:]
		}
		copy(g, "\xffgrp")
		binary.BigEndian.PutUint64(g[8:], uint64(segmentHeader+at))
		binary.BigEndian.PutUint32(g[4:], sum(g[8:groupHeader], g[groupHeader+next.bodies:]))
		at = next.at
	}
}

type lengths struct{ bodies, at int }

// groupAt returns the bytes of the group at a place of the content, by the
// lengths that it claims, nil for less than these.
func groupAt(content []byte, at int) ([]byte, lengths) {
	if len(content)-at < groupHeader {
		return nil, lengths{}
	}
	bodies, frames := int64(binary.BigEndian.Uint32(content[at+16:])), int64(binary.BigEndian.Uint32(content[at+20:]))
	if bodies+frames > int64(len(content)-at-groupHeader) {
		return nil, lengths{}
	}
	end := at + groupHeader + int(bodies+frames)
	return content[at:end], lengths{int(bodies), end}
}

func sum(parts ...[]byte) uint32 {
	return crc32.Checksum(slices.Concat(parts...), crc32.MakeTable(crc32.Castagnoli))
}

// reading returns what the whole groups at the beginning of the content have,
// and the length of these.
func reading(content []byte) (packets []packet, size int64) {
	for at := 0; ; {
		g, next := groupAt(content, at)
		if g == nil || string(g[:4]) != "\xffgrp" || binary.BigEndian.Uint64(g[8:]) != uint64(segmentHeader+at) ||
			binary.BigEndian.Uint32(g[4:]) != sum(g[8:groupHeader], g[groupHeader+next.bodies:]) {
			return packets, int64(at)
		}
		var own []packet
		place, bodies, frames := at+groupHeader, g[groupHeader:][:next.bodies], g[groupHeader+next.bodies:]
		for len(frames) >= frame {
			size, said := int64(binary.BigEndian.Uint32(frames)), int64(binary.BigEndian.Uint16(frames[8:]))
			if size+said > int64(len(bodies)) || binary.BigEndian.Uint32(frames[4:]) != sum(bodies[:size+said]) {
				return packets, int64(at)
			}
			own = append(own, packet{int64(segmentHeader + place), string(bodies[size : size+said]), string(bodies[:size])})
			place, bodies, frames = place+int(size+said), bodies[size+said:], frames[frame:]
		}
		if len(bodies) > 0 || len(frames) > 0 || len(own) != int(binary.BigEndian.Uint32(g[24:])) {
			return packets, int64(at)
		}
		packets, at = append(packets, own...), next.at
	}
}
