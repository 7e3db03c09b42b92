package wire

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// TestLongListsGrowOnce: the room that a long list gets is that of its
// elements, whatever they hold, and no text buys more than its length allows.
func TestLongListsGrowOnce(t *testing.T) {
	const n = 3 * manyElements
	for _, element := range []string{`0`, `"a,]}\\\",["`, `[1,[2,3],{"a":"]"}]`, `{"a":1,"b":[",",2]}`} {
		v, err := Parse([]byte("[["+strings.Repeat(element+" , ", n-1)+element+"],[1,2]]"), MaxJSONDepth)
		if err != nil {
			t.Fatal(err)
		}
		list := v.Items()[0].Items()
		if len(list) != n || cap(list) > n+n/8 {
			t.Errorf("%s: %d elements in room for %d, want %d", element, len(list), cap(list), n)
		}
	}
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + Decimal(int64(i)) + `":[0,1]`)
	}
	v, err := Parse([]byte("{"+b.String()[1:]+"}"), MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	if members := v.Members(); len(members) != n || cap(members) > n+n/8 {
		t.Errorf("%d members in room for %d, want %d", len(members), cap(members), n)
	}
	p := &parser{text: strings.Repeat(",", 1000)}
	if got := p.elementsLeft(); got > 501 {
		t.Errorf("1000 bytes give room for %d elements", got)
	}
}

// TestLongListsAllocateOnce counts bytes, the steps of growing included.
func TestLongListsAllocateOnce(t *testing.T) {
	const n = 1 << 20
	text := []byte("[" + strings.Repeat("0,", n-1) + "0]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Parse(text, MaxJSONDepth); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	most := 3 * n * uint64(unsafe.Sizeof(Value{})) / 2
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d elements took %d bytes, more than %d", n, got, most)
	}
}
