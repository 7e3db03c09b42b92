package kel_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzVerify: no log makes the verifier panic, and one that it accepts has a
// canonical form that says the same.
func FuzzVerify(f *testing.F) {
	p := newPen(f)
	for _, drawing := range []string{"icp", "icp -> dlg", "icp -> dlg -> rot -> dlg'", "icp -> rot -> rot"} {
		raw := p.draw(drawing).Raw()
		f.Add(raw, int64(later))
		f.Add(bytes.Replace(raw, []byte(`"seq":0`), []byte(`"seq": 0e1`), 1), int64(dayOne))
		f.Add(bytes.Replace(raw, []byte(`"seq":0`), []byte(`"notAfter":0,"seq":0`), 1), int64(later))
		f.Add(bytes.Replace(raw, []byte("ml-dsa-65"), []byte("ml-dsa-44"), 1), int64(-1))
	}
	f.Add([]byte(`[{"t":"dlg","seq":0,"ts":0,"prev":null,"key":{},"sig":{}}]`), int64(0))
	f.Add([]byte(`[]`), int64(0))

	cache := kel.NewCache(8)
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		log, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		s, err := kel.Verify(log, now)
		cached, cachedErr := cache.Verify(log, now)
		if (err == nil) != (cachedErr == nil) {
			t.Fatalf("without a cache %v, with one %v", err, cachedErr)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(s.Raw(), log.Canonical()) || cached.Digest() != s.Digest() {
			t.Fatal("the log kept is not the log given")
		}
		again, err := wire.Parse(s.Raw(), wire.MaxJSONDepth)
		must(t, err)
		same, err := kel.Verify(again, now)
		must(t, err)
		if same.Digest() != s.Digest() || same.ACEID() != s.ACEID() || same.LastHash() != s.LastHash() || same.Usable(now) != s.Usable(now) {
			t.Fatal("the canonical form says something else")
		}
		outcome, _, err := kel.Reconcile(s, same)
		if err != nil || outcome != kel.Unchanged {
			t.Fatalf("a log against itself: %q, %v", outcome, err)
		}
	})
}
