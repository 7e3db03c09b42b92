package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

func newRelayUnitCmd(a *app) *cobra.Command {
	var socket bool
	var program, config string
	c := &cobra.Command{
		Use:   "unit [--socket]",
		Short: "Print a systemd unit for the relay",
		Long: `Print a unit with which systemd runs a relay as a user of its own that can do
little else. With --socket, print the unit by which systemd opens the port: the
relay can then be replaced without a refused connection, and may have a port
below 1024.`,
		Example: `  ace relay unit > /etc/systemd/system/ace-relay.service
  ace relay unit --socket > /etc/systemd/system/ace-relay.socket`,
	}
	c.Flags().BoolVar(&socket, "socket", false, "print the unit of the socket")
	c.Flags().StringVar(&program, "program", "", "`PATH` of ace (default this program)")
	c.Flags().StringVar(&config, "config", relayConfigFile, "configuration `FILE` of the relay")
	ownEnv(c.Flags(), "config", relayconf.FileVariable)
	return a.leaf(c, 0, 0, nil, func(context.Context, []string) error {
		if socket {
			_, err := fmt.Fprint(a.io.Out, socketUnit)
			return err
		}
		return runRelayUnit(a, program, config)
	})
}

func runRelayUnit(a *app, program, config string) error {
	var err error
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	for _, path := range []string{program, config} {
		if !filepath.IsAbs(path) || strings.ContainsAny(path, " \t\n\"'\\%$") {
			return usagef("%q is no path that a unit can name: absolute, without blanks, quotes, %% and $", path)
		}
	}
	_, err = fmt.Fprintf(a.io.Out, serviceUnit, program, config)
	return err
}

// serviceUnit takes the paths of the program and of the configuration. The
// store and the admin socket have to be in the folders that systemd makes:
// nothing else can be written to.
const serviceUnit = `[Unit]
Description=ACE relay
Documentation=man:ace-relay(8)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart=%s relay serve --config %s
ExecReload=/bin/kill -HUP $MAINPID
Environment=ACE_RELAY_DATA=%%S/ace-relay
Environment=ACE_RELAY_ADMIN_SOCKET=%%t/ace-relay/admin.sock
WatchdogSec=30
# Longer than timeouts.drain.
TimeoutStopSec=60
Restart=on-failure
RestartSec=1
# Wrong configuration, refused for good, another relay on the same store.
RestartPreventExitStatus=2 10 31

# TLS in the relay itself: take the marks away here, and leave tls.cert and
# tls.key out of the configuration. A renewed certificate needs a restart then.
#LoadCredential=tls.cert:/etc/ace/relay.crt
#LoadCredential=tls.key:/etc/ace/relay.key
#Environment=ACE_RELAY_TLS_CERT=%%d/tls.cert ACE_RELAY_TLS_KEY=%%d/tls.key

DynamicUser=yes
StateDirectory=ace-relay
StateDirectoryMode=0700
RuntimeDirectory=ace-relay
RuntimeDirectoryMode=0700
UMask=0077
LimitNOFILE=65536
LimitCORE=0

NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
`

// socketUnit opens the port of the relay for it.
const socketUnit = `[Unit]
Description=Port of the ACE relay

[Socket]
# The address of the setting listen does not count where this unit opens one.
ListenStream=127.0.0.1:8420
FileDescriptorName=relay
Backlog=4096

[Install]
WantedBy=sockets.target
`
