package relayconf_test

import (
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

// TestStrays finds the variables that no setting has, and offers what is near.
func TestStrays(t *testing.T) {
	const no = ": no setting has this variable"
	for _, c := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"settings", []string{"ACE_RELAY_LISTEN=x", "ACE_RELAY_LIMITS_STREAMS=1", "ACE_RELAY_CONFIG=x", "ACE_RELAY=x", "ACE_HOME=x", "PATH=x"}, nil},
		{"not set", []string{"ACE_RELAY_LISTN="}, nil},
		{"in order", []string{"ACE_RELAY_LISTN=a", "ACE_RELAY_DATE=b"}, []string{
			"ACE_RELAY_DATE" + no + ": did you mean ACE_RELAY_DATA?", "ACE_RELAY_LISTN" + no + ": did you mean ACE_RELAY_LISTEN?"}},
		{"without its table", []string{"ACE_RELAY_STREAMS=1"}, []string{"ACE_RELAY_STREAMS" + no + ": did you mean ACE_RELAY_LIMITS_STREAMS?"}},
		{"lower case", []string{"ACE_RELAY_tls_cert=1"}, []string{"ACE_RELAY_tls_cert" + no + ": did you mean ACE_RELAY_TLS_CERT?"}},
		{"the file", []string{"ACE_RELAY_CONFG=1"}, []string{"ACE_RELAY_CONFG" + no + ": did you mean ACE_RELAY_CONFIG?"}},
		{"nothing near", []string{"ACE_RELAY_FOO=1", "ACE_RELAY_=1"}, []string{"ACE_RELAY_" + no, "ACE_RELAY_FOO" + no}},
		{"a port that somebody meant", []string{"ACE_RELAY_PORT=8420"}, []string{"ACE_RELAY_PORT" + no}},
		{"those of Kubernetes", []string{"ACE_RELAY_PORT=tcp://10.0.0.1:8420", "ACE_RELAY_PORT_8420_TCP_ADDR=x", "ACE_RELAY_SERVICE_HOST=x", "ACE_RELAY_SERVICE_PORT_HTTP=x", "ACE_RELAY_LISTN=x"},
			[]string{"ACE_RELAY_LISTN" + no + ": did you mean ACE_RELAY_LISTEN?"}},
	} {
		l, _ := relayconf.Load(relayconf.Source{Env: func(string) (string, bool) { return "", false }, Environ: c.environ})
		var got []string
		for _, p := range l.Strays() {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
