package relaysvc

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemoryIsGivenInOrder takes more than there is.
func TestMemoryIsGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unit = 1 << 20
		m := newMemory(4*unit, time.Hour)
		if !m.try(3*unit) || m.try(unit) {
			t.Fatal("the last quarter is for small buffers")
		}
		if !m.try(int64(sizes[0])) {
			t.Fatal("no small buffer")
		}
		var order []int64
		var mu sync.Mutex
		var group sync.WaitGroup
		for _, size := range []int64{2 * unit, unit} {
			group.Go(func() {
				if m.take(t.Context(), size, time.Hour) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, size)
				}
			})
			synctest.Wait()
		}
		if !m.try(int64(sizes[0])) {
			t.Fatal("a small buffer waits for large ones")
		}
		m.give(2 * int64(sizes[0]))
		m.give(unit)
		synctest.Wait()
		if len(order) != 0 {
			t.Fatal("a smaller request overtook a larger one")
		}
		m.give(unit)
		synctest.Wait()
		if len(order) != 1 || order[0] != 2*unit {
			t.Fatalf("got %v", order)
		}
		m.give(2 * unit)
		group.Wait()
	})
}

// TestMemoryIsNotWaitedForForever gives up waiting.
func TestMemoryIsNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(1<<20, time.Hour)
		if !m.try(1 << 20) {
			t.Fatal("not even all of it")
		}
		if m.take(t.Context(), 1<<19, time.Second) {
			t.Fatal("took what is not there")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if m.take(ctx, 1<<19, time.Hour) {
			t.Fatal("took for a client that is gone")
		}
		m.give(1 << 20)
		// More than there can ever be is all of it.
		if !m.take(t.Context(), 1<<30, time.Second) || m.try(1) {
			t.Fatal("all of it is not all")
		}
		m.give(1 << 30)
		if m.left != m.limit || len(m.waiting) != 0 {
			t.Fatalf("%d of %d left, %d wait", m.left, m.limit, len(m.waiting))
		}
	})
}

// TestWaitingComesFirst asks for what is left while somebody waits for more.
func TestWaitingComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unit = 1 << 20
		m := newMemory(8*unit, time.Hour)
		if !m.try(4 * unit) {
			t.Fatal("no memory")
		}
		got := make(chan bool)
		go func() { got <- m.take(t.Context(), 3*unit, time.Minute) }()
		synctest.Wait()
		if m.try(unit) {
			t.Fatal("took what another waits for")
		}
		m.give(unit)
		if !<-got {
			t.Fatal("did not get it")
		}
	})
}

func TestBuffersGrow(t *testing.T) {
	m := newMemory(1<<30, time.Hour)
	var b buffer
	take := func(size int) {
		t.Helper()
		if !m.try(int64(sizes[size])) {
			t.Fatal("no memory")
		}
		m.grow(&b, size)
	}
	take(0)
	b.data = append(b.data, "kept"...)
	take(2)
	if string(b.data) != "kept" || cap(b.data) < sizes[2] || b.held() != int64(sizes[2]) {
		t.Fatalf("%q of %d", b.data, cap(b.data))
	}
	m.free(&b)
	m.free(&b)
	if m.left != m.limit {
		t.Fatalf("%d are missing", m.limit-m.left)
	}
	for range 4 {
		var b buffer
		if m.grow(&b, 0); cap(b.data) != sizes[0] {
			t.Fatalf("a buffer of %d counts as one of %d", cap(b.data), sizes[0])
		}
	}
	for _, c := range []struct{ bytes, size int }{{0, 0}, {sizes[0], 0}, {sizes[0] + 1, 1}, {sizes[4], 4}, {sizes[5] + 1, 5}} {
		if got := sizeFor(c.bytes); got != c.size {
			t.Errorf("%d bytes: size %d, want %d", c.bytes, got, c.size)
		}
	}
}

func TestCrew(t *testing.T) {
	c := newCrew(2)
	defer c.close()
	var mu sync.Mutex
	n := 0
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			c.run(func() {
				mu.Lock()
				defer mu.Unlock()
				n++
			})
		})
	}
	group.Wait()
	if n != 50 {
		t.Fatalf("%d ran", n)
	}
	for range 3 {
		func() {
			defer func() {
				if recover() != "mistake" {
					t.Error("the panic is not its caller's")
				}
			}()
			c.run(func() { panic("mistake") })
		}()
	}
}

// TestChunks checks the form of a chunk of HTTP/1.1.
func TestChunks(t *testing.T) {
	for _, text := range []string{"x", "0123456789abcdef", string(bytes.Repeat([]byte("y"), 0x12345))} {
		frame := framed([]byte(text))
		setChunkSize(frame)
		size, rest, _ := bytes.Cut(frame, []byte("\r\n"))
		var n int
		for _, c := range size {
			n = n<<4 | bytes.IndexByte([]byte("0123456789abcdef"), c)
		}
		if n != len(text) || string(rest) != text+"\r\n" {
			t.Errorf("a chunk of %d bytes has size %s", len(text), size)
		}
	}
}

// TestSpread checks that streams are asked to reconnect within the time and not
// all at once.
func TestSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		d := within(time.Second)
		if d < 0 || d >= time.Second {
			t.Fatalf("after %s", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Fatalf("%d moments for 100 streams", len(seen))
	}
	if within(0) != 0 {
		t.Fatal("a spread of nothing takes time")
	}
}
