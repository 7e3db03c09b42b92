package relayconf_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

var update = flag.Bool("update", false, "write the reference in docs/relay anew")

// sample has, for each key, a value that is not its default: as TOML and as the
// text of a variable or an option.
var sample = map[string][2]string{
	"public_url":                  {`"https://relay.example"`, "https://relay.example"},
	"listen":                      {`"[::1]:9"`, "[::1]:9"},
	"data":                        {`"/srv/relay"`, "/srv/relay"},
	"trusted_proxies":             {`["10.0.0.0/8", "fd00::/8"]`, "10.0.0.0/8,fd00::/8"},
	"ops_listen":                  {`"127.0.0.1:9100"`, "127.0.0.1:9100"},
	"admin_socket":                {`"/run/relay/admin.sock"`, "/run/relay/admin.sock"},
	"reserved_handles":            {`["admin", "support"]`, "admin, support"},
	"tls.cert":                    {`"/etc/relay.crt"`, "/etc/relay.crt"},
	"tls.key":                     {`"/etc/relay.key"`, "/etc/relay.key"},
	"log.level":                   {`"debug"`, "debug"},
	"log.format":                  {`"json"`, "json"},
	"log.metadata":                {`true`, "true"},
	"wake.gateways":               {`["https://wake.example"]`, "https://wake.example"},
	"limits.queue_entries":        {`7`, "7"},
	"limits.queue_bytes":          {`"3MiB"`, "3MiB"},
	"limits.sender_entries":       {`8`, "8"},
	"limits.sender_bytes":         {`"9KiB"`, "9KiB"},
	"limits.network_stored":       {`"5GiB"`, "5GiB"},
	"limits.network_queued":       {`"6TiB"`, "6TiB"},
	"limits.block_peers":          {`5000`, "5000"},
	"limits.streams_per_identity": {`3`, "3"},
	"limits.streams":              {`11`, "11"},
	"limits.publications":         {`12`, "12"},
	"limits.strangers_from":       {`13`, "13"},
	"limits.strangers_to":         {`14`, "14"},
	"limits.connections":          {`15`, "15"},
	"limits.body_memory":          {`16777217`, "16777217"},
	"limits.disk_floor":           {`"1MiB"`, "1MiB"},
	"timeouts.header":             {`"3s"`, "3s"},
	"timeouts.body":               {`"4s"`, "4s"},
	"timeouts.write":              {`"1h30m"`, "1h30m"},
	"timeouts.idle":               {`"5m"`, "5m"},
	"timeouts.heartbeat":          {`"1500ms"`, "1500ms"},
	"timeouts.drain":              {`"2m"`, "2m"},
	"timeouts.spread":             {`"1m"`, "1m"},
	"timeouts.wake":               {`"8s"`, "8s"},
	"timeouts.wake_interval":      {`"9s"`, "9s"},
	"timeouts.sweep":              {`"7s"`, "7s"},
}

// source is a configuration of a file, an environment and options.
type source struct {
	file  string // its text, "" for none
	env   map[string]string
	flags map[string]string
}

func (s source) load(t testing.TB) (*relayconf.Loaded, []string) {
	t.Helper()
	src := relayconf.Source{
		Env:    func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		Flags:  s.flags,
		Listen: "127.0.0.1:8420", Data: "/var/lib/relay",
	}
	if s.file != "" {
		src.File = filepath.Join(t.TempDir(), "relay.toml")
		if err := os.WriteFile(src.File, []byte(s.file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, problems := relayconf.Load(src)
	var texts []string
	for _, p := range problems {
		texts = append(texts, strings.ReplaceAll(p.String(), src.File, "relay.toml"))
	}
	return l, texts
}

func (s source) must(t testing.TB) *relayconf.Loaded {
	t.Helper()
	l, problems := s.load(t)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return l
}

// fileOf writes the given keys as a file.
func fileOf(keys []relayconf.Key) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s = %s\n", k.Name, sample[k.Name][0])
	}
	return b.String()
}

// TestEveryFieldHasAKey fails for a limit or timeout of the relay that no key
// sets, and for a key without a sample here.
func TestEveryFieldHasAKey(t *testing.T) {
	all := source{file: fileOf(relayconf.Keys())}.must(t)
	plain := source{flags: map[string]string{"public_url": "https://other.example"}}.must(t)
	fields := func(v any) map[string]any {
		of := map[string]any{}
		for i := range reflect.TypeOf(v).NumField() {
			of[reflect.TypeOf(v).Field(i).Name] = reflect.ValueOf(v).Field(i).Interface()
		}
		return of
	}
	for _, pair := range [][2]any{{all.Limits, plain.Limits}, {all.Timeouts, plain.Timeouts}, {all.Settings, plain.Settings}} {
		set, unset := fields(pair[0]), fields(pair[1])
		for name := range set {
			if reflect.DeepEqual(set[name], unset[name]) {
				t.Errorf("no key sets %s of %T", name, pair[0])
			}
		}
	}
	for _, k := range relayconf.Keys() {
		if _, ok := sample[k.Name]; !ok {
			t.Errorf("no sample of %s", k.Name)
		}
	}
	if len(sample) != len(relayconf.Keys()) {
		t.Errorf("%d samples for %d keys", len(sample), len(relayconf.Keys()))
	}
}

// TestSources gives every value through the file, the environment and the
// options, with the same effect.
func TestSources(t *testing.T) {
	byFile := source{file: fileOf(relayconf.Keys())}.must(t)
	env, flags := map[string]string{}, map[string]string{}
	for _, k := range relayconf.Keys() {
		env["ACE_RELAY_"+strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))] = sample[k.Name][1]
		flags[k.Name] = sample[k.Name][1]
	}
	byEnv := source{env: env}.must(t)
	byFlag := source{flags: flags}.must(t)
	for name, l := range map[string]*relayconf.Loaded{"environment": byEnv, "command line": byFlag} {
		if !reflect.DeepEqual(l.Settings, byFile.Settings) {
			t.Errorf("%s: %+v\nfile: %+v", name, l.Settings, byFile.Settings)
		}
	}
	for _, k := range relayconf.Keys() {
		for l, want := range map[*relayconf.Loaded]string{byFile: "file ", byEnv: "env ACE_RELAY_", byFlag: "flag"} {
			if got := string(l.Origin(k.Name)); !strings.HasPrefix(got, want) {
				t.Errorf("%s comes from %q, want %q", k.Name, got, want)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	s := source{
		file:  "public_url = 'https://file.example'\nlisten = '127.0.0.1:1'\ndata = '/file'\n[limits]\nstreams = 5\n",
		env:   map[string]string{"ACE_RELAY_PUBLIC_URL": "https://env.example", "ACE_RELAY_LISTEN": "127.0.0.1:2", "ACE_RELAY_LIMITS_STREAMS": ""},
		flags: map[string]string{"public_url": "https://FLAG.example/"},
	}
	l := s.must(t)
	for key, want := range map[string][2]string{
		"public_url":           {`"https://flag.example"`, "flag"},
		"listen":               {`"127.0.0.1:2"`, "env ACE_RELAY_LISTEN"},
		"data":                 {`"/file"`, "file "},
		"limits.streams":       {"5", "file "},
		"limits.queue_entries": {"10000", "default"},
	} {
		i := slices.IndexFunc(l.Values(), func(v relayconf.Setting) bool { return v.Key == key })
		if got := l.Values()[i]; got.Value != want[0] || !strings.HasPrefix(string(got.Origin), want[1]) {
			t.Errorf("%s = %s from %s, want %v", key, got.Value, got.Origin, want)
		}
	}
}

// TestDefaultsFollowWhatTheyRestOn sets a bound from which another is derived.
func TestDefaultsFollowWhatTheyRestOn(t *testing.T) {
	l := source{file: "public_url = 'https://relay.example'\nlimits.queue_entries = 100\n"}.must(t)
	if l.Limits.SenderEntries != 50 {
		t.Errorf("sender_entries is %d", l.Limits.SenderEntries)
	}
	want := relaysvc.Config{PublicURL: "https://relay.example", DBPath: "x"}
	if err := want.Check(); err != nil {
		t.Fatal(err)
	}
	if l.Timeouts != want.Timeouts || l.Timeouts.Spread != 10*time.Second || l.Timeouts.Drain != 30*time.Second {
		t.Errorf("timeouts %+v", l.Timeouts)
	}
}

// TestProblems has one problem of each kind, with its place. All of them are
// listed.
func TestProblems(t *testing.T) {
	s := source{
		file: `# a relay
public_ulr = "https://relay.example"
listen = 3
tls = "x"
"limits.streams" = 3

[limits]
queue_entrys = 4
streams = "many"
queue_bytes = "64Mb"
network_queued = 9223372036854775807
network_stored = "9999999999TiB"
connections = 3000000000
block_peers = 0

[timeouts]
body = "-3s"
write = 3
spread = "soon"

[wake]
gateways = [1,
  2]

[log]
level = "loud"
metadata = "yes"

[nowhere.at]
all = 1
`,
		env:   map[string]string{"ACE_RELAY_TRUSTED_PROXIES": "10.0.0.0/8, nonsense", "ACE_RELAY_LOG_METADATA": "1"},
		flags: map[string]string{"admin_socket": "/run/x", "log.format": "xml"},
	}
	_, got := s.load(t)
	want := []string{
		`relay.toml:2: public_ulr: unknown key: did you mean "public_url"?`,
		`relay.toml:3: listen: wants a text`,
		`relay.toml:4: tls: is a table of settings, not a value`,
		`relay.toml:5: "limits.streams": unknown key: did you mean "limits.streams"?`,
		`relay.toml:8: limits.queue_entrys: unknown key: did you mean "limits.queue_entries"?`,
		`relay.toml:9: limits.streams: wants a number`,
		`relay.toml:10: limits.queue_bytes: "64Mb" is no number of bytes such as 64MiB`,
		`relay.toml:12: limits.network_stored: 9999999999TiB is too large`,
		`relay.toml:13: limits.connections: 3000000000 is too large`,
		`relay.toml:14: limits.block_peers: 0 is less than 1`,
		`relay.toml:17: timeouts.body: -3s is not above zero`,
		`relay.toml:18: timeouts.write: wants a text with a duration such as "90s"`,
		`relay.toml:19: timeouts.spread: "soon" is no duration such as "90s"`,
		`relay.toml:22: wake.gateways: wants a list of texts`,
		`relay.toml:26: log.level: "loud" is none of debug, info, warn and error`,
		`relay.toml:27: log.metadata: wants true or false`,
		`relay.toml:29: nowhere: unknown key`,
		`ACE_RELAY_TRUSTED_PROXIES: trusted_proxies: "nonsense" is no network such as 10.0.0.0/8`,
		`ACE_RELAY_LOG_METADATA: log.metadata: "1" is neither true nor false`,
		`public_url: is required: it is what clients sign for`,
		`--log-format: log.format: "xml" is neither text nor json`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestChecks has what no single value gets wrong by itself, or by its form.
func TestChecks(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"good":                {"", ""},
		"http":                {"public_url = 'http://relay.example'", "relay.toml:1: public_url: "},
		"no port":             {"listen = '127.0.0.1'", `relay.toml:2: listen: "127.0.0.1" is no address with a port`},
		"port by name":        {"listen = ':http'", `relay.toml:2: listen: ":http" has no port`},
		"one address for two": {"ops_listen = '127.0.0.1:8420'", "relay.toml:2: ops_listen: is the same as listen"},
		"certificate alone":   {"tls.cert = '/x'", "relay.toml:2: tls.cert: goes with tls.key"},
		"key alone":           {"tls.key = '/x'", "relay.toml:2: tls.key: goes with tls.cert"},
		"no folder":           {"data = ''", "relay.toml:2: data: is empty"},
		"format":              {"log.format = 'xml'", "relay.toml:2: log.format: "},
		"gateway":             {"wake.gateways = ['http://wake.example']", "relay.toml:2: wake.gateways: "},
		"two handles":         {"reserved_handles = ['Admin', 'Root']", `relay.toml:2: reserved_handles: "Admin" is no handle|relay.toml:2: reserved_handles: "Root" is no handle`},
		"a timeout too short": {"timeouts.sweep = '1ns'", "relay.toml:2: timeouts.sweep: 1ns is less than 1ms"},
		"a timeout too long":  {"timeouts.body = '2562047h'", "relay.toml:2: timeouts.body: 2562047h is more than a year"},
		"a part of a second":  {"timeouts.wake_interval = '10ms'", "relay.toml:2: timeouts.wake_interval: counts in whole seconds"},
		"wrong once":          {"listen = 5\ndata = 5", "relay.toml:2: listen: wants a text|relay.toml:3: data: wants a text"},
		"handle":              {"reserved_handles = ['Admin']", `relay.toml:2: reserved_handles: "Admin" is no handle`},
		"few blocks":          {"limits.block_peers = 3", "relay.toml:2: limits.block_peers: 3 is less than 256"},
		"a short drain":       {"timeouts.drain = '5s'", "relay.toml:2: timeouts.drain: a drain of 5s leaves no time after a spread of 10s"},
		"a long spread":       {"timeouts.spread = '30s'", "relay.toml:2: timeouts.spread: a drain of 30s leaves no time after a spread of 30s"},
		"rare heartbeats":     {"tls.cert = '/x'\ntls.key = '/y'\ntimeouts.heartbeat = '1m'", "relay.toml:4: timeouts.heartbeat: heartbeats every 1m0s are too rare for a write timeout of 1m0s"},
		"all at once": {"listen = 5\nlimits.block_peers = 3\ntimeouts.drain = '5s'",
			"relay.toml:2: listen: wants a text|relay.toml:3: limits.block_peers: |relay.toml:4: timeouts.drain: "},
		"no table":    {"queue_entires = 4", `relay.toml:2: queue_entires: unknown key: did you mean "limits.queue_entries"?`},
		"no TOML":     {"limits = [", "relay.toml:2: "},
		"a key twice": {"listen = 'x'\nlisten = 'y'", "relay.toml:3: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := "public_url = 'https://relay.example'\n" + c.file
			if name == "http" {
				file = c.file
			}
			_, got := source{file: file}.load(t)
			var want []string
			if c.want != "" {
				want = strings.Split(c.want, "|")
			}
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	_, problems := relayconf.Load(relayconf.Source{File: "/nowhere/relay.toml", Env: func(string) (string, bool) { return "", false }, Listen: "127.0.0.1:1", Data: "x"})
	if len(problems) == 0 || problems[0].String() != "/nowhere/relay.toml: no such file or directory" {
		t.Errorf("got %v", problems)
	}
	_, problems = relayconf.Load(relayconf.Source{File: t.TempDir(), Env: func(string) (string, bool) { return "", false }, Listen: "127.0.0.1:1", Data: "x"})
	if len(problems) == 0 {
		t.Error("a folder is taken for a file")
	}
}

// TestPipe names a pipe as the file: it has no end, and nobody may write to it.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "relay.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := relayconf.Load(relayconf.Source{File: pipe, Env: func(string) (string, bool) { return "", false }, Listen: "127.0.0.1:1", Data: "x"})
	if len(problems) != 1 || problems[0].String() != pipe+": not a regular file" {
		t.Errorf("got %v", problems)
	}
}

// TestMappedProxies names proxies by IPv4-mapped addresses, which are those of
// IPv4.
func TestMappedProxies(t *testing.T) {
	l := source{file: "public_url = 'https://relay.example'\ntrusted_proxies = ['::ffff:10.0.0.1', '::ffff:10.9.9.9/104', '::ffff:0:0/90']"}.must(t)
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffc0:0:0/90")}
	if !slices.Equal(l.TrustedProxies, want) {
		t.Errorf("got %v, want %v", l.TrustedProxies, want)
	}
}

// TestFileThatOthersWrite warns of a configuration that others can change.
func TestFileThatOthersWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "relay.toml")
	if err := os.WriteFile(file, []byte("public_url = 'https://relay.example'\ntrusted_proxies = ['127.0.0.1']"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o644: 0, 0o666: 1, 0o620: 1} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		l, _ := relayconf.Load(relayconf.Source{File: file, Env: func(string) (string, bool) { return "", false }, Listen: "127.0.0.1:1", Data: "/x"})
		if got := l.Warnings(); len(got) != want {
			t.Errorf("mode %o: %v", mode, got)
		}
	}
}

// TestPrintedConfiguration prints a configuration and reads it again.
func TestPrintedConfiguration(t *testing.T) {
	for name, s := range map[string]source{
		"all":      {file: fileOf(relayconf.Keys())},
		"defaults": {file: "public_url = 'https://relay.example'"},
		"strange":  {file: `public_url = 'https://relay.example'` + "\ndata = \"/a\\\"b\\\\c\\u0001\\nd\"\n"},
	} {
		printed := s.must(t)
		if _, err := toml.Decode(printed.TOML(), &map[string]any{}); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, printed.TOML())
		}
		again := source{file: printed.TOML()}.must(t)
		if !reflect.DeepEqual(again.Settings, printed.Settings) {
			t.Errorf("%s: %+v\nprinted: %+v", name, again.Settings, printed.Settings)
		}
	}
}

func TestChanges(t *testing.T) {
	plain := source{file: "public_url = 'https://relay.example'\n"}.must(t)
	other := source{file: fileOf(relayconf.Keys())}.must(t)
	live, restart := relayconf.Changes(plain, other)
	for _, k := range relayconf.Keys() {
		if k.Name == "public_url" {
			continue // the same in both
		}
		if slices.Contains(live, k.Name) != k.Live || slices.Contains(restart, k.Name) == k.Live {
			t.Errorf("%s: live %v", k.Name, k.Live)
		}
	}
	if live, restart := relayconf.Changes(plain, plain); len(live)+len(restart) > 0 {
		t.Errorf("no change: %v %v", live, restart)
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "relay.crt")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cert, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		want []string // the keys, in order
	}{
		"behind a proxy":     {"trusted_proxies = ['127.0.0.1']", nil},
		"nobody to believe":  {"", []string{"trusted_proxies"}},
		"plain and open":     {"listen = ':80'\nops_listen = '127.0.0.1:1'", []string{"listen"}},
		"metrics for all":    {"listen = '0.0.0.0:80'\ntrusted_proxies = ['10.0.0.1']", []string{"ops_listen"}},
		"operations for all": {"ops_listen = '0.0.0.0:9100'\ntrusted_proxies = ['10.0.0.1']", []string{"ops_listen"}},
		"everybody trusted":  {"trusted_proxies = ['0.0.0.0/0']", []string{"trusted_proxies"}},
		"metadata":           {"trusted_proxies = ['10.0.0.1']\nlog.metadata = true", []string{"log.metadata"}},
		"relative":           {"trusted_proxies = ['10.0.0.1']\ndata = 'x'", []string{"data"}},
		"a certificate that others write": {
			"listen = ':443'\nops_listen = '[::1]:1'\ntls.cert = '" + cert + "'\ntls.key = '/nowhere'", []string{"tls.key", "tls.cert"}},
	} {
		var got []string
		l := source{file: "public_url = 'https://relay.example'\n" + c.file}.must(t)
		for _, p := range l.Warnings() {
			got = append(got, p.Key)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: warnings about %v, want %v", name, got, c.want)
		}
		if l.Exposed() != (name == "plain and open") {
			t.Errorf("%s: exposed %v", name, l.Exposed())
		}
	}
}

// TestReference compares the reference in docs/relay with the table of keys.
func TestReference(t *testing.T) {
	const path, begin, end = "../../docs/relay/configuration.md", "<!-- keys -->\n", "<!-- end of keys -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the keys", path)
	}
	want := before + begin + relayconf.Reference() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is not up to date: go test ./relaysvc/relayconf -update writes it", path)
	}
}

// FuzzFile reads any text as a file: it never panics, and what is accepted can
// be printed and read again.
func FuzzFile(f *testing.F) {
	f.Add(fileOf(relayconf.Keys()))
	f.Add("[limits]\nstreams = 3\n[[wake]]\nx = 1")
	f.Fuzz(func(t *testing.T, text string) {
		s := source{file: text + "\n"}
		l, problems := s.load(t)
		if len(problems) > 0 {
			return
		}
		again := source{file: l.TOML()}.must(t)
		if !reflect.DeepEqual(again.Settings, l.Settings) {
			t.Errorf("%+v\nprinted: %+v", again.Settings, l.Settings)
		}
	})
}

// TestBytes reads numbers of bytes, in binary and decimal units.
func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "7B": 7, "64KiB": 64 << 10, "64 MiB": 64 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40,
		"5kB": 5000, "5MB": 5e6, "5GB": 5e9, "5TB": 5e12, "9223372036854775807": 1<<63 - 1,
		"0": 0, "-1": 0, "0KiB": 0, "": 0, "MiB": 0, "5Mb": 0, "5KB": 0, "1.5MiB": 0, "0x10": 0, "9223372036854775808": 0, "8388608TiB": 0, "five": 0,
	} {
		got, err := relayconf.ParseBytes(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "strconv") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
