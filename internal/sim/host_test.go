package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// host is a machine with one endpoint, whose process may die and whose files
// may be lost or put back from a copy.
type host struct {
	w     *world
	n     int
	name  string // its handle too
	shape shapeHost
	relay *relay
	root  *suite.SigningKey
	next  *suite.SigningKey // the committed next root
	id    *kel.Identity
	was   *kel.State      // the log before
	wasIn int             // the step in which that one ended
	logs  map[string]bool // hashes of the last events of all logs it has had
	vault *suite.Seed

	dir      string // of the store; another one after each death
	moves    int
	copy     string // folder of an older copy of the store, "" without
	disk     *disk
	unwatch  func()
	endpoint *core.Endpoint
	files    *store.Store // the same files, opened to look at

	skew                int64
	requests            int // in this step
	dieBefore, dieAfter int // the request at which the host dies, 0: none

	// What the host has gone through, which excuses some ends of messages.
	lost, restored, rotated, recovered bool

	view         *view                 // of the store after the last step
	looked       int                   // operations of its disk by then
	told         map[received]int      // how often the application was told, by this store
	shown        map[string]wire.Value // entries of its inbox that are not taken from it, by stream ID
	fetches      map[string]int        // how often each was shown
	blocked      map[string]bool       // ACE IDs it has ever blocked
	asked        map[string]bool       // ACE IDs looked up since the last send to them
	gate         *gate                 // of its streams
	listening    bool
	asleep       int64           // seconds that it sleeps when it has the next page
	rivalry      bool            // another process of it is at work
	raced        bool            // one was, in this step
	unregistered bool            // at its relay
	awaited      bool            // something may be queued for it
	keys         map[string]bool // IDs of the prekeys it ever held, by this store

	keptUp     int64                 // when upkeep was done last in the calm
	inviting   bool                  // the owner invites a peer in this step
	deciding   bool                  // the owner decides about peers in this step
	lookups    map[string]*kel.State // the last log that a lookup showed in this step, by ACE ID
	posting    map[string]bool       // messages of which a process of the host is making an attempt
	receipted  map[string]bool       // whether the last receipt for a message went out or was refused for good, by its ID
	routeless  map[string]bool       // whether the last lookup of its sender found no route, by ID of a message shown since
	retryAfter map[nthAttempt]int64  // what a relay asked for, seconds
	exhausted  bool                  // it has deleted prekeys before their time
	forgot     map[string]bool       // ACE IDs with whom contact was ended in this step
	requested  map[string]bool       // ACE IDs that were sent a contact request in this step
	issued     map[string][]byte     // the last permit that has left it in this step, by ACE ID
	handlers   *handlers
	policy     policy.Policy
	owner      owner
}

// received names a message to its recipient.
type received struct{ from, id string }

var names = []string{"anna", "bert", "cora", "dirk"}

func (w *world) addHost(n int, s stageHost) {
	h := &host{
		w: w, n: n, name: names[n], shape: shapes[w.plan.shape].hosts[n], root: s.root, next: s.next, vault: s.vault,
		gate: newGate(), logs: map[string]bool{}, forgot: map[string]bool{}, requested: map[string]bool{}, issued: map[string][]byte{},
		lookups: map[string]*kel.State{}, posting: map[string]bool{}, receipted: map[string]bool{}, routeless: map[string]bool{}, retryAfter: map[nthAttempt]int64{},
		dir: filepath.Join(w.dir, names[n]), disk: &disk{},
		shown: map[string]wire.Value{}, fetches: map[string]int{}, asked: map[string]bool{}, blocked: map[string]bool{},
		handlers: newHandlers(), owner: newOwner(),
	}
	if n < len(w.plan.policies) {
		h.policy = policies[w.plan.policies[n]]
	}
	h.relay = w.relays[h.shape.relay]
	h.become(s.state, s.key)
	w.hosts = append(w.hosts, h)
	h.open()
	h.begin()
}

func (h *host) clock() int64 { return h.w.now + h.skew }

func (h *host) path() string { return filepath.Join(h.dir, "store.db") }

// begin takes the store for what it is, as when it was lost or put back.
func (h *host) begin() {
	clear(h.issued)
	clear(h.lookups)
	h.handlers.endStep()
	h.told, h.keys = map[received]int{}, map[string]bool{}
	h.view, h.looked = h.load(), h.disk.written
}

// open starts the endpoint's process. It may die on the way.
func (h *host) open() {
	h.handlers.restart()
	h.unwatch = faultdisk.Watch(h.dir, func(op faultdisk.Op) int32 { return h.disk.hook(h.w, op) })
	c := h.config()
	for {
		var err error
		if h.endpoint, err = core.Open(h.w.ctx, c); err == nil {
			break
		}
		h.endpoint = nil
		h.expect("open", err)
		if h.w.broken != nil {
			panic(err)
		}
		h.shelter()
		if h.disk.dead {
			h.move()
			c.StorePath = h.path()
		}
	}
	h.watchFiles()
}

func (h *host) config() core.Config {
	card := descriptor.CardRecord{Handle: h.name, Contact: descriptor.ContactOpen}
	if h.shape.closed {
		card.Contact = descriptor.ContactClosed
	}
	c := core.Config{
		Identity: h.id, StorePath: h.path(), VaultKey: h.vault, Relay: h.relay.url(), Card: card, Clock: h.clock, Transport: h,
		ReceiveBy: "sim", Capacity: h.shape.capacity, Policy: h.policy,
		PeersAtOnce: 1, // one thing at a time
	}
	for _, id := range []string{profile.TextID, profile.CommerceID, profile.DelegationID} {
		c.Profiles = append(c.Profiles, profile.OfficialByID(id))
	}
	if h.shape.obliges {
		c.Accept = map[string]string{profile.TextID: c.Profiles[0].Digest}
	}
	return c
}

func (h *host) watchFiles() {
	// A disk that still fails is not to fail the onlooker.
	h.shelter()
	dead := h.disk.dead
	h.disk.dead = false
	var err error
	if h.files, err = store.Open(h.w.ctx, h.path(), h.vault); err != nil {
		h.w.t.Fatal(err)
	}
	h.disk.dead = dead
}

// close ends the process in good order.
func (h *host) close() {
	h.shelter()
	err := h.files.Close()
	if h.endpoint != nil {
		err = errors.Join(err, h.endpoint.Close())
	}
	h.unwatch()
	if err != nil && !h.disk.dead {
		h.w.violate("a store closes", "06#error-codes", "%v", err)
	}
}

// die ends the process at this instant: nothing it does afterwards reaches its
// files or a relay.
func (h *host) die() {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	h.disk.dead = true
}

// rise starts the process of a host that has died again, from its files.
func (h *host) rise() {
	h.w.count("died")
	clear(h.issued)
	clear(h.lookups)
	old := h.dir
	h.copyFiles(h.nextDir())
	h.close()
	remove(h.w.t, old)
	h.disk.dead = false
	h.open()
}

// move is rise for a host that has died while it opened.
func (h *host) move() {
	h.copyFiles(h.nextDir())
	h.unwatch()
	h.disk.dead = false
	h.unwatch = faultdisk.Watch(h.dir, func(op faultdisk.Op) int32 { return h.disk.hook(h.w, op) })
}

func (h *host) nextDir() string {
	h.moves++
	return filepath.Join(h.w.dir, fmt.Sprintf("%s-%d", h.name, h.moves))
}

// copyFiles copies what is left of the files of the store to a new folder, which
// is the host's from now on.
func (h *host) copyFiles(to string) {
	if h.disk.power {
		h.w.count("lost power")
		h.exportSynced(to)
	} else {
		h.export(to)
	}
	h.disk.power, h.disk.synced = false, nil
	h.dir = to
}

func (h *host) exportSynced(to string) {
	err := os.Mkdir(to, 0o700)
	for name, data := range h.disk.synced {
		err = errors.Join(err, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
	if err != nil {
		h.w.t.Fatal(err)
	}
}

func (h *host) export(to string) {
	if err := os.Mkdir(to, 0o700); err != nil {
		h.w.t.Fatal(err)
	}
	for _, name := range files {
		err := copyFile(filepath.Join(h.dir, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			h.w.t.Fatal(err)
		}
	}
}

// restart closes the process and starts it again, perhaps with other files or
// another identity.
func (h *host) restart(change func()) {
	h.close()
	h.disk.dead = false
	change()
	h.open()
}

// keepCopy makes the copy that restore puts back.
func (h *host) keepCopy() {
	if h.copy != "" {
		remove(h.w.t, h.copy)
	}
	h.copy = h.nextDir()
	h.export(h.copy)
}

// restore puts an older copy in the place of the store.
func (h *host) restore() {
	h.restart(func() {
		h.dir = h.copy
		h.copy = ""
	})
	h.restored = true
	h.begin()
	h.forgetSent()
}

// lose leaves the host with its identity and an empty store.
func (h *host) lose() {
	h.restart(func() { h.dir = h.nextDir() })
	h.lost = true
	h.begin()
	h.forgetSent()
}

// forgetSent notes what the store does not know any more.
func (h *host) forgetSent() {
	for _, m := range h.w.sent.list {
		if m.from == h && h.view.entry(m.id) == nil {
			m.gone = true
		}
	}
}

// settleStep ends a step: a host that has died rises, and its store is looked
// at.
func (h *host) settleStep() {
	if h.disk.dead {
		h.rise()
	}
	h.shelter()
	h.look()
}

// look loads the store, if it was written to, and checks all rules against what
// it was before.
func (h *host) look() {
	if h.disk.written == h.looked {
		clear(h.lookups) // what is pinned already
		h.handlers.endStep()
		return
	}
	h.looked = h.disk.written
	if h.disk.failed {
		clear(h.issued) // what could not be written
		clear(h.lookups)
	}
	before := h.view
	h.view = h.load()
	for _, r := range slices.Concat(rules, handlerRules, policyRules) {
		if what := r.check(h, before, h.view); what != "" {
			h.w.violate(r.name, r.cite, "%s: %s", h.name, what)
		}
	}
	h.deciding, h.inviting = false, false
	clear(h.forgot)
	clear(h.requested)
	clear(h.issued)
	clear(h.lookups)
	h.handlers.endStep()
	h.owner = newOwner()
}

// The failures that the weather explains, in any operation: with a new key there
// is no own descriptor to send until the relay was reached.
var ofNetwork = []fault.Code{fault.RelayUnavailable, fault.RelayProtocolError, fault.NotRegistered, fault.IdentityUnavailable}

// refusedAs reports whether a relay refused a request with a code of its own:
// as a replay, for it is made again once, and the network may double that too; or
// as signed under a delegation that another process of the host has replaced.
func refusedAs(err error, code fault.Code) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Remote == string(code)
}

// The failures that a new signing key explains, until its holder has sent
// permits under it.
var ofRotation = []fault.Code{fault.NotPermitted, fault.StalePeerBinding}

// expect checks the code of a failure: one of those that the operation may have,
// or one that the faults of this step explain.
func (h *host) expect(what string, err error, codes ...fault.Code) {
	if err == nil || h.disk.dead {
		return
	}
	code := fault.CodeOf(err)
	h.w.note("   %s: %s", what, code)
	switch {
	case slices.Contains(codes, code):
	case h.listening && refusedAs(err, relayapi.StaleSeq):
	case h.raced && refusedAs(err, fault.StaleDescriptor): // another process has published a later one
	case h.w.anyExcused() && code == fault.StaleDescriptor: // by a peer that has forgotten what was seen of it
	case (h.rivalry || h.listening) && code == fault.LockBusy:
	case h.disk.failed && (code == fault.StorageFailed || code == fault.LockBusy):
	case !h.w.calm && (slices.Contains(ofNetwork, code) || refusedAs(err, relayapi.Replay)):
	case h.w.anyRotated() && slices.Contains(ofRotation, code):
	case (h.w.blocks || h.w.anyUnregistered()) && code == fault.NotPermitted:
	default:
		h.w.violate("no wrong code", "06#error-codes", "%s: %s fails with %v", h.name, what, err)
	}
}
