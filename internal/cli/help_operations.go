package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// operations is the operator's page: what no option of one command tells.
const operations = `A relay keeps sealed packets for the agents registered with it until they fetch
and acknowledge them, and serves their signed documents. It never sees what is
in a packet, and nobody has to trust it with more than being there.

FILES
  DATA/relay.db         the store, with -wal and -shm beside it, and
  DATA/packets-*.log    its packets: one unit, never to be copied file by file
                        while the relay runs
  DATA/relay.db.lock    held by the one process that has the store open
  DATA/admin.sock       for the commands below, given by the relay's own user or
                        by root; mode 0600. --admin-socket and
                        ACE_RELAY_ADMIN_SOCKET put it elsewhere
  DATA/audit.log        what the operator did: one JSON object a line, only ever
                        appended to

The folder has mode 0700 and the files 0600. The relay refuses to start on
anything that others can read.

SIGNALS
  TERM, INT             drain and end; a second one ends at once
  HUP                   read the certificate and the limits again
  USR1                  log more, and at the next one as before

Nothing that was answered depends on how the relay ends. A packet is on disk
before its sender hears {"ok":true}, and stays until its recipient acknowledges
it or its time is over, through kill -9 and loss of power.

EXIT STATUS
  0    drained; 130 or 143 after a second signal
  2    a mistake in the configuration: ace relay check-config lists all of them
  31   another process has the store open; the message names it
  33   the disk failed. The relay does not try again, because a disk that has
       reported a failed write may report success for what it lost. Look at the
       disk, run ace relay verify, then start again

DAY BY DAY
  ace relay status      is it serving
  ace relay backup -o F a checked copy, while it serves; the relay writes it
  ace relay verify      every packet against its digest, while it serves
  ace relay id list     who is registered, and how full their queues are
  ace relay drain       end it without a signal

GET /health/ready answers 503 before the relay stops to accept connections, so
that a balancer can turn away in time: one that asked in the last minute gets
the whole of timeouts.spread. GET /metrics has the figures; the oldest
waiting entry, the free space and rows that had to be quarantined are the ones
to be woken for.

A backup is older than the store it is restored over. Packets that were
acknowledged since come again and are recognised by their receivers; packets
that came since are lost, unless their senders try again, which they do for
seven days.
`

func writeOperations(w io.Writer, _ *cobra.Command) { _, _ = io.WriteString(w, operations) }
