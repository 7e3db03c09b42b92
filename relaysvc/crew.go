package relaysvc

import "sync"

// crew does work that takes a deep stack, looking at the store and verifying
// signatures, on a few goroutines that keep theirs. Those of a connection or a
// stream stay small: there are thousands, and most of them wait.
type crew struct {
	work  chan *task
	tasks sync.WaitGroup
	spare sync.Pool // of *task
}

type task struct {
	do    func()
	panic any           // what do panicked with
	done  chan struct{} // holds one token when do is over
}

func (t *task) run() {
	defer func() {
		t.panic = recover()
		t.done <- struct{}{}
	}()
	t.do()
}

func newCrew(size int) *crew {
	c := &crew{work: make(chan *task)}
	c.spare.New = func() any { return &task{done: make(chan struct{}, 1)} }
	for range size {
		c.tasks.Go(func() {
			for t := range c.work {
				t.run()
			}
		})
	}
	return c
}

// run calls fn on a goroutine of the crew and waits for it. A panic is the
// caller's. fn must not call run, nor wait for a client.
func (c *crew) run(fn func()) {
	t := c.spare.Get().(*task)
	t.do = fn
	c.work <- t
	<-t.done
	p := t.panic
	t.do, t.panic = nil, nil
	c.spare.Put(t)
	if p != nil {
		panic(p)
	}
}

// close ends the goroutines. Nobody calls run any more.
func (c *crew) close() {
	close(c.work)
	c.tasks.Wait()
}
