package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

// devRelay is what the file of a development relay of this user says. Each
// relay has a file of its own, and dev-relay.json is a link to that of the one
// that was started last.
type devRelay struct {
	URL  string `json:"url"`
	PID  int    `json:"pid"`
	Echo string `json:"echo,omitempty"` // ACE ID of its echo agent
	Data string `json:"data,omitempty"` // folder of its store

	path string // of its file
}

// relayDev is the value of --relay that stands for the development relay.
const relayDev = "dev"

const (
	devRelayLink   = "dev-relay.json"
	devRelayPrefix = "dev-relay-" // of the file of one relay
	devRelayLimit  = 4096         // bytes
)

// devRelayDir returns the folder of these files: the user's runtime folder,
// else a folder of the user's own among the temporary files.
func (a *app) devRelayDir() string {
	if dir := a.io.env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ace")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("ace-%d", os.Getuid()))
}

func (a *app) devRelayPath() string { return filepath.Join(a.devRelayDir(), devRelayLink) }

// findDevRelay returns the URL of a development relay that answers, the one
// that was started last if there are several. The files of relays that were
// killed count for nothing.
func (a *app) findDevRelay() (string, error) {
	relays, err := a.devRelays()
	if err != nil {
		return "", err
	}
	for _, d := range relays {
		if d.answers() {
			return d.URL, nil
		}
	}
	return "", hintf(fault.New(fault.RelayUnavailable, "no development relay runs: none in %s answers", a.devRelayDir()),
		"start one with ace relay serve --dev")
}

// devRelayWait is how long awaitDevRelay waits.
const devRelayWait = 2 * time.Second

// awaitDevRelay is findDevRelay for a relay that may have been started a moment
// ago, by the line before this one.
func (a *app) awaitDevRelay() (url string, err error) {
	for until := time.Now().Add(devRelayWait); ; time.Sleep(20 * time.Millisecond) {
		url, err = a.findDevRelay()
		if !errors.Is(err, fault.RelayUnavailable) || time.Now().After(until) {
			return url, err
		}
	}
}

// devRelays returns what the files say, newest first. The folder is checked
// before a file is believed: anybody can make a folder among the temporary
// files.
func (a *app) devRelays() ([]devRelay, error) {
	dir := a.devRelayDir()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := checkDevRelayDir(dir); err != nil {
		return nil, err
	}
	var all []devRelay
	started := map[string]time.Time{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), devRelayPrefix) {
			continue
		}
		d, err := readDevRelay(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			return nil, err
		}
		started[d.path] = info.ModTime()
		all = append(all, d)
	}
	slices.SortFunc(all, func(x, y devRelay) int { return started[y.path].Compare(started[x.path]) })
	return all, nil
}

func readDevRelay(path string) (devRelay, error) {
	text, err := ownerfile.Read(path, devRelayLimit)
	if err != nil {
		return devRelay{}, err
	}
	d := devRelay{path: path}
	if json.Unmarshal(text, &d) != nil || wire.CheckRelayURL(d.URL, wire.Development) != nil || !onLoopback(d.URL) {
		return d, fault.New(fault.StorageFailed, "%s does not name a relay on this machine: remove it", path)
	}
	return d, nil
}

// answers reports whether the relay runs: its process exists, and its URL
// answers that it is not about to end. The number of the process alone could be
// that of another one by now.
func (d devRelay) answers() bool {
	if !exists(d.PID) {
		return false
	}
	client := http.Client{
		Timeout:       devRelayWait,
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Get(d.URL + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode != http.StatusServiceUnavailable
}

// exists reports whether a process runs. One of another user does.
func exists(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH }

// checkDevRelayDir refuses a folder that is not the user's own and theirs
// alone, and a link in its place: whoever made that could choose which of the
// user's folders is written to.
func checkDevRelayDir(dir string) error {
	if err := ownerfile.CheckDir(dir); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a link", dir)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// announceDevRelay writes the file of a relay, points the link at it, and
// returns what takes both back.
func (a *app) announceDevRelay(d devRelay) (withdraw func(), err error) {
	dir := a.devRelayDir()
	if err := ownerfile.EnsureDir(dir); err != nil {
		return nil, err
	}
	if err := checkDevRelayDir(dir); err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	_, host, _ := strings.Cut(d.URL, "://")
	d.path = filepath.Join(dir, devRelayPrefix+strings.NewReplacer(":", "-", "[", "", "]", "").Replace(host)+".json")
	if err := ownerfile.Write(d.path, append(text, '\n')); err != nil {
		return nil, err
	}
	withdraw = func() {
		os.Remove(d.path)
		a.settleDevRelays() // what cannot be tidied now is next time
	}
	if err := a.settleDevRelays(); err != nil {
		withdraw()
		return nil, err
	}
	return withdraw, nil
}

// settleDevRelays removes the files of processes that are gone, and points the
// link at the newest relay that answers, or removes it.
func (a *app) settleDevRelays() error {
	relays, err := a.devRelays()
	if err != nil {
		return err
	}
	link := a.devRelayPath()
	for _, d := range relays {
		switch {
		case !exists(d.PID):
			os.Remove(d.path)
		case d.answers():
			return relink(filepath.Base(d.path), link)
		}
	}
	if err := os.Remove(link); !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return nil
}

// relink makes link a link to target, in place of what it is now.
func relink(target, link string) error {
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	temp := fmt.Sprintf("%s.%d", link, os.Getpid())
	os.Remove(temp) // of a process with the same number that was killed
	err := os.Symlink(target, temp)
	if err == nil {
		err = os.Rename(temp, link)
	}
	return fault.Wrap(fault.StorageFailed, err)
}
