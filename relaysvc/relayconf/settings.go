// Package relayconf is the configuration of a relay: a TOML file, the
// environment and the command line, taken together into [Settings].
//
// Every setting has one row in a table (keys.go): its key in the file, the
// option of the command line where it has one, what it means, and where its
// value goes. The variable of the environment is made from the key. Reading,
// printing, the reference in docs/relay and the tests all go through that
// table.
//
// Start with [Load], which collects every [Problem] before it gives up, then
// [Loaded.Config].
package relayconf

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/ace-toolkit/ace/relaysvc"
)

// Settings is what an operator decides about a relay.
type Settings struct {
	PublicURL       string
	Listen          string
	Data            string
	TrustedProxies  []netip.Prefix
	TLSCert, TLSKey string
	OpsListen       string
	AdminSocket     string
	LogLevel        slog.Level
	LogFormat       string
	LogMetadata     bool
	Limits          relaysvc.Limits
	Timeouts        relaysvc.Timeouts
	WakeGateways    []string
	ReservedHandles []string
}

// The values of log.format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// DefaultListen is where a relay for others listens unless it is told.
const DefaultListen = "127.0.0.1:8420"

// Source says where the configuration comes from. A value on the command line
// wins over the environment, that over the file, that over the default.
type Source struct {
	// File is the path of the TOML file, "" for none. A missing one is a
	// problem.
	File string
	// Env returns a variable of the environment and whether it is set. An
	// empty one counts as not set.
	Env func(string) (string, bool)
	// Environ is the whole environment, as lines NAME=VALUE, to find variables
	// in it that no setting has. It may be nil.
	Environ []string
	// Flags are the options given on the command line: their text by key.
	Flags map[string]string
	// Development allows what only a development relay may do: no public URL,
	// or one with http and a loopback host.
	Development bool
	// Listen and Data are the defaults of these two keys.
	Listen, Data string
}

// Origin is where a value comes from.
type Origin string

// The origins. Those of a file and of a variable are followed by its name.
const (
	FromDefault Origin = "default"
	FromFile    Origin = "file"
	FromEnv     Origin = "env"
	FromFlag    Origin = "flag"
)

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Settings
	file    string            // that was read, "" for none
	origins map[string]Origin // by key; FromDefault where there is none
	places  map[string]string // where a key was set last, as Problem.Where
	strays  []Problem
}

// Place returns where the value of a key was set, as Problem.Where.
func (l *Loaded) Place(key string) string { return l.places[key] }

// Origin returns where the value of a key comes from.
func (l *Loaded) Origin(key string) Origin {
	if o, ok := l.origins[key]; ok {
		return o
	}
	return FromDefault
}

// Config returns the configuration of the relay itself. The listeners, the log
// and the clock are for the caller to add.
func (s *Settings) Config() relaysvc.Config {
	return relaysvc.Config{
		PublicURL:       s.PublicURL,
		DBPath:          filepath.Join(s.Data, "relay.db"),
		TrustedProxies:  s.TrustedProxies,
		TLSCert:         s.TLSCert,
		TLSKey:          s.TLSKey,
		WakeGateways:    s.WakeGateways,
		ReservedHandles: s.ReservedHandles,
		Limits:          s.Limits,
		Timeouts:        s.Timeouts,
		LogMetadata:     s.LogMetadata,
	}
}

const envPrefix = "ACE_RELAY_"

// EnvName returns the variable of a key: ACE_RELAY_LIMITS_QUEUE_BYTES for
// limits.queue_bytes.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
