package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

// devRelay is the file by which --relay dev finds the development relay that
// this user runs.
type devRelay struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// relayDev is the value of --relay that stands for the development relay.
const relayDev = "dev"

// devRelayDir returns the folder of that file: the user's runtime folder, else
// a folder of the user's own among the temporary files.
func (a *app) devRelayDir() string {
	if dir := a.io.env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ace")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("ace-%d", os.Getuid()))
}

func (a *app) devRelayPath() string { return filepath.Join(a.devRelayDir(), "dev-relay.json") }

// findDevRelay returns the URL of the development relay. The folder is checked
// before the file is believed: anybody can make a folder among the temporary
// files.
func (a *app) findDevRelay() (string, error) {
	path := a.devRelayPath()
	text, err := ownerfile.Read(path, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return "", hintf(fault.New(fault.RelayUnavailable, "no development relay runs: there is no %s", path), "start one with ace relay serve --dev")
	}
	if err != nil {
		return "", err
	}
	if err := checkDevRelayDir(a.devRelayDir()); err != nil {
		return "", err
	}
	var d devRelay
	if json.Unmarshal(text, &d) != nil || wire.CheckRelayURL(d.URL, wire.Development) != nil {
		return "", fault.New(fault.StorageFailed, "%s does not name a relay", path)
	}
	return d.URL, nil
}

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

// announceDevRelay writes the file and returns what removes it again, if it is
// still about this relay.
func (a *app) announceDevRelay(url string) (withdraw func(), err error) {
	if err := ownerfile.EnsureDir(a.devRelayDir()); err != nil {
		return nil, err
	}
	if err := checkDevRelayDir(a.devRelayDir()); err != nil {
		return nil, err
	}
	path := a.devRelayPath()
	text, err := json.Marshal(devRelay{URL: url, PID: os.Getpid()})
	if err != nil {
		return nil, err
	}
	if err := ownerfile.Write(path, append(text, '\n')); err != nil {
		return nil, err
	}
	return func() {
		if now, err := a.findDevRelay(); err == nil && now == url {
			os.Remove(path)
		}
	}, nil
}
