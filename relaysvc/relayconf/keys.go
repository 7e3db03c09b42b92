package relayconf

// Key is a setting as its readers know it.
type Key struct {
	// Name is the key in the file, with its table: limits.queue_bytes.
	Name string
	// Flag is the option of the command line without its hyphens, or "".
	Flag string
	// Kind says how a value is written.
	Kind Kind
	// Doc says what the setting does, in one line, with its unit.
	Doc string
	// Live tells that a running relay takes over a change when it gets SIGHUP.
	Live bool

	at func(*Settings) any // pointer to the value
}

// Kind is a form of values.
type Kind string

// The kinds of values.
const (
	KindText     Kind = "text"
	KindBool     Kind = "true or false"
	KindCount    Kind = "number"
	KindBytes    Kind = "bytes"    // a number, or text with a unit: "64MiB"
	KindDuration Kind = "duration" // "90s", "2m"
	KindList     Kind = "list of texts"
	KindLevel    Kind = "level" // debug, info, warn or error
)

// Keys returns every setting, in the order of the reference.
func Keys() []Key {
	return []Key{
		{"public_url", "public-url", KindText, "`URL` under which clients reach the relay; it is what they sign for. Required", false, func(s *Settings) any { return &s.PublicURL }},
		{"listen", "listen", KindText, "`ADDRESS` and port to listen on", false, func(s *Settings) any { return &s.Listen }},
		{"data", "data", KindText, "`DIR` of the store", false, func(s *Settings) any { return &s.Data }},
		{"trusted_proxies", "trusted-proxy", KindList, "networks of reverse proxies to believe about clients (X-Forwarded-For), as `CIDR`", false, func(s *Settings) any { return &s.TrustedProxies }},
		{"ops_listen", "ops-listen", KindText, "`ADDRESS` and port for /metrics and what is below /health, which are then not where the rest is", false, func(s *Settings) any { return &s.OpsListen }},
		{"admin_socket", "admin-socket", KindText, "`PATH` of the socket for the operator's commands; admin.sock in the folder of the store when not set", false, func(s *Settings) any { return &s.AdminSocket }},
		{"reserved_handles", "", KindList, "handles that nobody can claim, nor one that looks like them", false, func(s *Settings) any { return &s.ReservedHandles }},

		{"tls.cert", "tls-cert", KindText, "PEM `FILE` of the certificate and its chain; the relay then speaks TLS itself. Followed when it changes", false, func(s *Settings) any { return &s.TLSCert }},
		{"tls.key", "tls-key", KindText, "PEM `FILE` of the key of that certificate, readable by its owner alone", false, func(s *Settings) any { return &s.TLSKey }},

		{"log.level", "log-level", KindLevel, "least `LEVEL` that is logged: debug, info, warn or error. A refused request is info, an answered one debug", true, func(s *Settings) any { return &s.LogLevel }},
		{"log.format", "log-format", KindText, "`FORMAT` of the log: text or json", false, func(s *Settings) any { return &s.LogFormat }},
		{"log.metadata", "", KindBool, "log the client network of a request and a salted hash of its caller", false, func(s *Settings) any { return &s.LogMetadata }},

		{"wake.gateways", "", KindList, "URLs of the gateways to which wake hints may be sent, or * for all whose address is not blocked; none are offered when empty", false, func(s *Settings) any { return &s.WakeGateways }},

		{"limits.queue_entries", "", KindCount, "packets queued for one recipient, strangers' apart", true, func(s *Settings) any { return &s.Limits.QueueEntries }},
		{"limits.queue_bytes", "", KindBytes, "bytes queued for one recipient, strangers' apart", true, func(s *Settings) any { return &s.Limits.QueueBytes }},
		{"limits.sender_entries", "", KindCount, "packets of one sender in the queue of one recipient", true, func(s *Settings) any { return &s.Limits.SenderEntries }},
		{"limits.sender_bytes", "", KindBytes, "bytes of one sender in the queue of one recipient", true, func(s *Settings) any { return &s.Limits.SenderBytes }},
		{"limits.network_stored", "", KindBytes, "bytes stored of the identities that registered from one client network", true, func(s *Settings) any { return &s.Limits.NetworkStored }},
		{"limits.network_queued", "", KindBytes, "bytes queued for the identities that registered from one client network", true, func(s *Settings) any { return &s.Limits.NetworkQueued }},
		{"limits.block_peers", "", KindCount, "peers whose blocks are tracked for one identity", true, func(s *Settings) any { return &s.Limits.BlockPeers }},
		{"limits.streams_per_identity", "", KindCount, "listen streams of one identity", true, func(s *Settings) any { return &s.Limits.StreamsPerIdentity }},
		{"limits.streams", "", KindCount, "listen streams in all", true, func(s *Settings) any { return &s.Limits.Streams }},
		{"limits.publications", "", KindCount, "registrations, descriptors and cards from one client network a minute", true, func(s *Settings) any { return &s.Limits.Publications }},
		{"limits.strangers_from", "", KindCount, "packets without a permit from one client network a minute", true, func(s *Settings) any { return &s.Limits.StrangersFrom }},
		{"limits.strangers_to", "", KindCount, "packets without a permit to one recipient a minute", true, func(s *Settings) any { return &s.Limits.StrangersTo }},
		{"limits.connections", "", KindCount, "connections open at the same time; for one more, the one that is idle the longest is closed, or it waits. And requests in progress over HTTP/2", true, func(s *Settings) any { return &s.Limits.Connections }},
		{"limits.body_memory", "", KindBytes, "bytes of request bodies in memory at the same time; as much for inbox pages and streams, and for lookups", false, func(s *Settings) any { return &s.Limits.BodyMemory }},
		{"limits.disk_floor", "", KindBytes, "free bytes on the disk below which nothing more is taken in", true, func(s *Settings) any { return &s.Limits.DiskFloor }},

		{"timeouts.header", "", KindDuration, "for the header of a request", false, func(s *Settings) any { return &s.Timeouts.Header }},
		{"timeouts.body", "", KindDuration, "for the body of a request", false, func(s *Settings) any { return &s.Timeouts.Body }},
		{"timeouts.write", "", KindDuration, "for a response, or one event of a stream", false, func(s *Settings) any { return &s.Timeouts.Write }},
		{"timeouts.idle", "", KindDuration, "of a connection between two requests", false, func(s *Settings) any { return &s.Timeouts.Idle }},
		{"timeouts.heartbeat", "", KindDuration, "between two comment lines on a silent stream", false, func(s *Settings) any { return &s.Timeouts.Heartbeat }},
		{"timeouts.drain", "", KindDuration, "for everything that goes on when the relay is asked to end", false, func(s *Settings) any { return &s.Timeouts.Drain }},
		{"timeouts.spread", "", KindDuration, "of the drain for asking streams to reconnect, a few at a time", false, func(s *Settings) any { return &s.Timeouts.Spread }},
		{"timeouts.wake", "", KindDuration, "for one request to a gateway", false, func(s *Settings) any { return &s.Timeouts.Wake }},
		{"timeouts.wake_interval", "", KindDuration, "between two wakes of one identity at least", false, func(s *Settings) any { return &s.Timeouts.WakeInterval }},
		{"timeouts.sweep", "", KindDuration, "between two removals of what has expired", false, func(s *Settings) any { return &s.Timeouts.Sweep }},
	}
}

// keyNamed returns the key of that name.
func keyNamed(name string) (Key, bool) {
	for _, k := range Keys() {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}
