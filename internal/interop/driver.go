package interop

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/wire"
)

const usage = `Usage:
  ace interop gen-identity <dir> [--handle H] --now N
  ace interop verify-card <file> --now N
  ace interop create-packet <dir> --to-agent F --kind K --out P [options] --now N
  ace interop open-packet <dir> --from-agent F --packet P --out R --now N
  ace interop eval < inputs.ndjson

Options of create-packet: --message, --message-id, --thread-id, --ref-message-id,
--code, --ref-prekey, --note, --prekey-agent, --to-prekey.
`

// Main runs one command of the driver (interop#driver-contract) or eval, and
// returns the exit status: 0, also when the protocol rejects what was looked at,
// or 1 for bad arguments and for a file that cannot be read or written. It reads
// no configuration, environment or home folder and no clock but --now.
//
// The identities it makes are for tests: their secrets lie unsealed in a file
// that only its owner can read.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := run(args, stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "ace interop: %v\n", err)
		if errors.Is(err, errArguments) {
			io.WriteString(stderr, usage)
		}
		return 1
	}
	return 0
}

var errArguments = errors.New("bad arguments")

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no command", errArguments)
	}
	switch name, rest := args[0], args[1:]; name {
	case "eval":
		if len(rest) > 0 {
			return fmt.Errorf("%w: eval takes none", errArguments)
		}
		return evalStream(stdin, stdout, stderr)
	case "help", "--help", "-h":
		_, err := io.WriteString(stdout, usage)
		return err
	case "gen-identity":
		return withOptions(rest, []string{"handle"}, genIdentity)
	case "verify-card":
		return withOptions(rest, nil, func(o *options) error { return verifyCard(o, stdout) })
	case "create-packet":
		return withOptions(rest, []string{
			"to-agent", "kind", "out", "message", "message-id", "thread-id", "ref-message-id", "code", "ref-prekey",
			"note", "prekey-agent", "to-prekey",
		}, createPacket)
	case "open-packet":
		return withOptions(rest, []string{"from-agent", "packet", "out"}, openPacket)
	default:
		return fmt.Errorf("%w: unknown command %q", errArguments, name)
	}
}

// options are the arguments of one command.
type options struct {
	path   string // the driver's folder or the file, the one argument that is no option
	now    int64
	values map[string]string
}

// withOptions parses the arguments of a command that knows the named options,
// in any order, and runs it.
func withOptions(args, known []string, command func(*options) error) error {
	o := &options{values: map[string]string{}}
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "--")
		if !isOption {
			if o.path != "" {
				return fmt.Errorf("%w: %q after %q", errArguments, args[i], o.path)
			}
			o.path = args[i]
			continue
		}
		if name != "now" && !slices.Contains(known, name) {
			return fmt.Errorf("%w: unknown option %q", errArguments, args[i])
		}
		if _, again := o.values[name]; again || i+1 == len(args) {
			return fmt.Errorf("%w: %s without a value or with two", errArguments, args[i])
		}
		i++
		o.values[name] = args[i]
	}
	if o.path == "" {
		return fmt.Errorf("%w: no folder or file", errArguments)
	}
	var err error
	if o.now, err = strconv.ParseInt(o.values["now"], 10, 64); err != nil || wire.CheckTime(o.now) != nil {
		return fmt.Errorf("%w: --now is no time in Unix seconds", errArguments)
	}
	return command(o)
}

// get returns an option that has to be given.
func (o *options) get(name string) (string, error) {
	v, ok := o.values[name]
	if !ok {
		return "", fmt.Errorf("%w: --%s missing", errArguments, name)
	}
	return v, nil
}

// text is get for a value that goes into a packet.
func (o *options) text(name string) (string, error) {
	v, err := o.get(name)
	if err == nil && !utf8.ValidString(v) {
		err = fmt.Errorf("%w: --%s is not UTF-8", errArguments, name)
	}
	return v, err
}
