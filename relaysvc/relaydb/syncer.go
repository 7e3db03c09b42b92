package relaydb

import (
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// syncer answers packets when the packet log has reached the disk as far as
// they are in it. The writer takes the next decisions meanwhile. Until then no
// reader sees their entries, because nobody may be told the stream ID of a
// packet that a power cut would take away.
type syncer struct {
	log     *packetlog.Log
	state   *breakage
	keeper  *keeper
	observe func(Commit)
	groups  chan *group
	waiting atomic.Int64 // groups that were handed over and are not answered
	spare   chan *group
}

// group is packets that were committed together and wait for the disk.
type group struct {
	jobs    []*job
	results []error
	through int64     // the end of the log then
	began   time.Time // the transaction
}

// spareGroups are kept for later: one is at the disk, one is being handed over,
// one is being decided.
const spareGroups = 3

// newSyncer returns a syncer for which ahead groups may wait beside the one that
// is being handed over. None is best: what comes while the writer waits is one
// group, and costs one commit.
func newSyncer(log *packetlog.Log, state *breakage, observe func(Commit), ahead int) *syncer {
	return &syncer{log: log, state: state, observe: observe, groups: make(chan *group, ahead), spare: make(chan *group, spareGroups)}
}

// group returns an empty one.
func (s *syncer) group() *group {
	select {
	case g := <-s.spare:
		clear(g.jobs)
		clear(g.results)
		g.jobs, g.results = g.jobs[:0], g.results[:0]
		return g
	default:
		return &group{}
	}
}

// take gets a group from the writer. One packet with nobody before it is
// answered at once: handing it over would take longer than what could be
// decided meanwhile.
func (s *syncer) take(g *group) {
	if len(g.jobs) == 1 && s.waiting.Load() == 0 && cap(s.groups) == 0 {
		s.finish(g)
		return
	}
	s.waiting.Add(1)
	s.groups <- g
}

// loop works until groups is closed.
func (s *syncer) loop() {
	for g := range s.groups {
		s.finish(g)
		s.waiting.Add(-1)
	}
}

// finish answers a group when it has reached the disk. One goroutine is at it
// at a time.
func (s *syncer) finish(g *group) {
	start := time.Now()
	err := s.sync(g.through)
	s.answer(g, time.Since(start), err)
}

// sync breaks the store when the disk fails.
func (s *syncer) sync(through int64) error {
	if err := s.state.get(); err != nil {
		return err
	}
	if err := s.log.Sync(through); err != nil {
		s.state.set(err)
		s.keeper.settle()
		s.state.tell()
		return err
	}
	failpoint.Here(failpoint.Synced)
	return s.state.get()
}

func (s *syncer) answer(g *group, took time.Duration, err error) {
	if err == nil {
		s.observe(Commit{Decisions: len(g.jobs), Took: took, Whole: time.Since(g.began)})
	}
	for i, j := range g.jobs {
		if err != nil {
			j.finish(err)
			continue
		}
		j.finish(g.results[i])
		failpoint.Here(failpoint.Answered)
	}
	select {
	case s.spare <- g:
	default:
	}
}
