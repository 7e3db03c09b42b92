package relaydb

import (
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
	spare   chan *group
}

// group is packets that were committed together and wait for the disk.
type group struct {
	jobs    []*job
	results []error
	through int64     // the end of the log then
	began   time.Time // the transaction
}

// groupsAhead bounds the groups that wait for the disk.
const groupsAhead = 4

func newSyncer(log *packetlog.Log, state *breakage, observe func(Commit)) *syncer {
	return &syncer{log: log, state: state, observe: observe, groups: make(chan *group, groupsAhead), spare: make(chan *group, groupsAhead+2)}
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

// loop works until groups is closed. The groups that wait are synced together.
func (s *syncer) loop() {
	var ready []*group
	for g := range s.groups {
		ready = append(ready[:0], g)
		for more := true; more; {
			select {
			case g, ok := <-s.groups:
				if more = ok; ok {
					ready = append(ready, g)
				}
			default:
				more = false
			}
		}
		start := time.Now()
		err := s.sync(ready[len(ready)-1].through)
		took := time.Since(start)
		for _, g := range ready {
			s.answer(g, took, err)
		}
		clear(ready)
	}
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
