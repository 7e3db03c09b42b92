package sim

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// dawn is when a stage is set, and day when the plays begin.
const (
	dawn = 1_800_000_000
	day  = 86400
)

// shape is a world at its beginning.
type shape struct {
	relays int
	hosts  []shapeHost
	// met are the hosts that have admitted each other.
	met [][2]int
}

type shapeHost struct {
	relay    int
	closed   bool  // contact setting
	capacity int64 // messages not yet handled that it takes in, 0: plenty
	obliges  bool  // an acceptProfiles rule accepts every request
}

var shapes = []shape{
	{relays: 1, hosts: []shapeHost{{}, {}}, met: [][2]int{{0, 1}}},
	{relays: 1, hosts: []shapeHost{{capacity: 3}, {}}, met: [][2]int{{0, 1}}},
	{relays: 2, hosts: []shapeHost{{obliges: true}, {relay: 1}}},
	{relays: 1, hosts: []shapeHost{{}, {closed: true}, {obliges: true}}, met: [][2]int{{1, 0}, {1, 2}}},
	{relays: 2, hosts: []shapeHost{{}, {relay: 1, closed: true}, {relay: 1, obliges: true}}, met: [][2]int{{1, 0}, {0, 2}}},
	{relays: 2, hosts: []shapeHost{{obliges: true}, {}, {relay: 1}, {relay: 1, obliges: true}}, met: [][2]int{{0, 1}, {0, 2}, {2, 3}}},
}

// stages are the shapes as files, each made once: registering, publishing and
// meeting again in every world would be most of its work.
type stages struct {
	t    *testing.T
	made map[int]*stage
}

// stage is a world that was closed after its hosts have met.
type stage struct {
	dir   string
	now   int64
	hosts []stageHost
}

type stageHost struct {
	root, next, key *suite.SigningKey
	state           *kel.State
	vault           *suite.Seed
}

func newStages(t *testing.T) *stages { return &stages{t: t, made: map[int]*stage{}} }

// set opens a world where its shape left off.
func (s *stages) set(w *world) {
	made := s.made[w.plan.shape]
	if made == nil {
		made = s.make(w.t, w.plan.shape)
		s.made[w.plan.shape] = made
	}
	copyTree(w.t, made.dir, w.dir)
	w.now = made.now
	w.draw(w.plan.seed)
	for _, r := range w.relays {
		r.start()
	}
	for n := range made.hosts {
		w.addHost(n, made.hosts[n])
	}
}

func (s *stages) make(t *testing.T, n int) *stage {
	w := newWorld(t, plan{shape: n})
	w.calm = true
	w.draw(uint64(n))
	made := &stage{dir: w.dir}
	for _, r := range w.relays {
		r.start()
	}
	for i := range shapes[n].hosts {
		made.hosts = append(made.hosts, newStageHost(t))
		w.addHost(i, made.hosts[i])
		w.must(w.hosts[i].publish(false))
	}
	for _, pair := range shapes[n].met {
		w.meet(w.hosts[pair[0]], w.hosts[pair[1]])
	}
	made.now = w.now
	for _, h := range w.hosts {
		h.close()
	}
	for _, r := range w.relays {
		r.stop()
	}
	s.t.Cleanup(func() { remove(s.t, w.dir) })
	if w.broken != nil {
		t.Fatalf("shape %d broke %s", n, w.broken)
	}
	return made
}

func newStageHost(t *testing.T) stageHost {
	root, next, key := newKey(), newKey(), newKey()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), dawn-day)
	if err == nil {
		state, err = state.Delegate(root, key.PublicKey(), dawn-day, dawn-day+wire.MaxSigningKeyLifetime)
	}
	if err != nil {
		t.Fatal(err)
	}
	return stageHost{root: root, next: next, key: key, state: state, vault: suite.NewSeed()}
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// meet makes a connect to b and b accept.
func (w *world) meet(a, b *host) {
	w.now++
	w.must(a.connect(b))
	w.now++
	w.must(b.pull(0))
	w.now++
	w.must(b.decide(true))
	w.now++
	w.must(a.pull(0))
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// scratch makes an empty folder that only its owner can reach, in memory where
// the system has a place for that.
func scratch(t *testing.T) string {
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "ace-sim-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func remove(t *testing.T, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func copyTree(t *testing.T, from, to string) {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		return copyFile(path, target)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return os.WriteFile(to, data, 0o600)
}
