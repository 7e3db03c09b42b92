package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/internal/span"
)

func newListenUnitCmd(a *app) *cobra.Command {
	var o unitOptions
	c := &cobra.Command{
		Use:   "unit [--exec -- COMMAND...]",
		Short: "Print a systemd unit that listens",
		Long: `Print a unit with which systemd runs ace listen for this identity, for the service
manager of the user, or with --system for that of the machine. The options of the
listening and its command go into the unit. A passphrase comes to it from
--passphrase-file, as a credential of the service, or from --passphrase-command;
never from the unit itself.

The unit keeps the service from most of what it does not need. A command of --exec
runs under the same rules: it cannot gain privileges.`,
		Example: `  ace listen unit --exec -- ./answer > ~/.config/systemd/user/ace-listen.service
  systemctl --user daemon-reload && systemctl --user enable --now ace-listen
  loginctl enable-linger`,
	}
	f := c.Flags()
	f.BoolVar(&o.system, "system", false, "a unit of the machine, run as this user")
	f.StringVar(&o.program, "program", "", "`PATH` of ace (default this program)")
	f.IntVar(&o.poll, "poll", 0, "ask every `SECONDS` in place of a stream, where a proxy holds streams up")
	f.StringSliceVar(&o.types, "types", nil, "only messages of these `TYPES`")
	o.handlerOptions.addFlags(c)
	return a.leaf(c, 0, -1, nil, func(_ context.Context, args []string) error {
		if err := o.handlerOptions.check(args, c.ArgsLenAtDash()); err != nil {
			return err
		}
		return runListenUnit(a, o, args)
	})
}

type unitOptions struct {
	system  bool
	program string
	poll    int
	types   []string
	handlerOptions
}

func runListenUnit(a *app, o unitOptions, command []string) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	if a.flags.passphrase.fd >= 0 {
		return usagef("a unit has no file descriptor for --passphrase-fd: give --passphrase-file or --passphrase-command")
	}
	if err := checkPoll(o.poll); err != nil {
		return err
	}
	if o.types, err = a.messageTypes(o.types); err != nil {
		return err
	}
	words, credential, err := o.words(a, id.name, command)
	if err != nil {
		return err
	}
	line, err := unitLine(words)
	if err != nil {
		return err
	}
	config, err := unitConfigDir(a.configDir())
	if err != nil {
		return err
	}
	owner, target := "", "default.target"
	if o.system {
		u, err := user.Current()
		if err != nil {
			return err
		}
		owner, target = "User="+u.Username+"\n", "multi-user.target"
	}
	sandbox := userSandbox
	if o.system {
		sandbox = systemSandbox
	}
	if len(command) == 0 {
		sandbox += "MemoryDenyWriteExecute=yes\n"
	}
	_, err = fmt.Fprintf(a.io.Out, listenUnit, id.name, line, config, credential, owner, sandbox, target)
	return err
}

// words are those of the command line of the unit.
func (o unitOptions) words(a *app, name string, command []string) (words []string, credential string, err error) {
	program := o.program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, "", err
		}
	}
	home, err := filepath.Abs(a.dataDir())
	if err != nil {
		return nil, "", err
	}
	words = []string{program, "--home", home, "--as", name}
	if a.flags.config != "" {
		path, err := filepath.Abs(a.flags.config)
		if err != nil {
			return nil, "", err
		}
		words = append(words, "--config", path)
	}
	if a.flags.relay != "" {
		words = append(words, "--relay", a.flags.relay)
	}
	if a.flags.allowLoopback {
		words = append(words, "--allow-loopback")
	}
	switch p := a.flags.passphrase; {
	case p.File != "":
		path, err := filepath.Abs(p.File)
		if err != nil {
			return nil, "", err
		}
		source, err := unitLine([]string{path})
		if err != nil {
			return nil, "", err
		}
		credential = "LoadCredential=passphrase:" + source + "\n"
		words = append(words, "--passphrase-file", credentialWord)
	case p.shell != "":
		words = append(words, "--passphrase-command", p.shell)
	}
	words = append(words, "listen", "--json", "--forever")
	if o.poll > 0 {
		words = append(words, "--poll", strconv.Itoa(o.poll))
	}
	if len(o.types) > 0 {
		words = append(words, "--types", strings.Join(o.types, ","))
	}
	more, err := o.handlerWords(command)
	return append(words, more...), credential, err
}

// handlerWords are those of the command of --exec. It is named by its path: systemd
// starts units in another folder.
func (o handlerOptions) handlerWords(command []string) ([]string, error) {
	if len(command) == 0 {
		return nil, nil
	}
	how := "--exec"
	if o.execJSON {
		how = "--exec-json"
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	words := []string{how, "--exec-timeout", span.String(o.timeout), "--exec-concurrency", strconv.Itoa(o.concurrency), "--exec-attempts", strconv.Itoa(o.attempts), "--", path}
	return append(words, command[1:]...), nil
}

// credentialWord stands for the file that systemd makes of the credential.
const credentialWord = "\x00%d/passphrase"

// unitLine writes words as a command line of systemd, in which nothing is
// replaced. Code: invalid_argument for a word that cannot be written.
func unitLine(words []string) (string, error) {
	var quoted []string
	for _, w := range words {
		if w == credentialWord {
			quoted = append(quoted, w[1:])
			continue
		}
		if w != clean(w, false) {
			return "", usagef("%q cannot be in a unit", w)
		}
		plain := w != "" && !strings.ContainsFunc(w, func(r rune) bool { return r > 0x7e || strings.ContainsRune(" \t\"'\\;$%", r) })
		if !plain {
			w = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `$$`, `%`, `%%`).Replace(w) + `"`
		}
		quoted = append(quoted, w)
	}
	return strings.Join(quoted, " "), nil
}

// unitConfigDir sets the folder of the configuration where a service would read
// another one: it would go by another policy. Code: invalid_argument for a folder
// that cannot be written.
func unitConfigDir(dir string) (string, error) {
	if dir == filepath.Join(accountHome(), ".config") {
		return "", nil
	}
	if dir != clean(dir, false) {
		return "", usagef("%q cannot be in a unit", dir)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`)
	return `Environment="XDG_CONFIG_HOME=` + quote.Replace(dir) + "\"\n", nil
}

// listenUnit takes the name of the identity, the command line, the folder of the
// configuration, the credential, the user, the rules and the target.
const listenUnit = `[Unit]
Description=ACE messages of %s
Documentation=man:ace-listen(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart=%s
%s%s%sWatchdogSec=60
# A command of --exec that runs gets 10 seconds, and 5 more to end.
KillMode=mixed
TimeoutStopSec=30
# Also where ace ends in good order: its output may have broken with the journal.
Restart=always
RestartSec=10
# Wrong usage, not registered, not authentic, no identity: look at it first.
RestartPreventExitStatus=2 12 13 32

%s
[Install]
WantedBy=%s
`

// userSandbox are rules that the service manager of a user can set without user
// namespaces, which not every system allows.
const userSandbox = `UMask=0077
LimitCORE=0
NoNewPrivileges=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`

// systemSandbox are those of a service of the machine. The state of the identity
// is in a home, which stays in reach.
const systemSandbox = userSandbox + `CapabilityBoundingSet=
ProtectSystem=full
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
`
