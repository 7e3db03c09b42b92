package relayconf

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/internal/span"
)

// unit is one of numbers of bytes.
type unit struct {
	suffix string
	bytes  int64
}

// The units of numbers of bytes: what is printed has one of the binary ones, and
// what is read any.
var (
	binaryUnits = []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}
	// B comes last, because each of the others ends in it.
	units = append(binaryUnits[:len(binaryUnits):len(binaryUnits)], unit{"kB", 1e3}, unit{"MB", 1e6}, unit{"GB", 1e9}, unit{"TB", 1e12}, unit{"B", 1})
)

// setTOML puts a value of the file where it belongs.
func (k Key) setTOML(s *Settings, value any) error {
	switch v := value.(type) {
	case string:
		if k.Kind == KindList || k.Kind == KindBool || k.Kind == KindCount {
			return k.wrongKind()
		}
		return k.setText(s, v)
	case bool:
		if k.Kind != KindBool {
			return k.wrongKind()
		}
		return k.setText(s, strconv.FormatBool(v))
	case int64:
		if k.Kind != KindCount && k.Kind != KindBytes {
			return k.wrongKind()
		}
		return k.setText(s, strconv.FormatInt(v, 10))
	case []any:
		if k.Kind != KindList {
			return k.wrongKind()
		}
		return k.setList(s, v)
	}
	return k.wrongKind()
}

func (k Key) wrongKind() error {
	switch k.Kind {
	case KindBytes:
		return errors.New(`wants a number of bytes, or a text with a unit such as "64MiB"`)
	case KindDuration:
		return errors.New(`wants a text with a duration such as "90s"`)
	case KindLevel:
		return errors.New("wants a text: debug, info, warn or error")
	case KindBool:
		return errors.New("wants true or false")
	}
	return fmt.Errorf("wants a %s", k.Kind)
}

func (k Key) setList(s *Settings, values []any) error {
	var texts []string
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			return k.wrongKind()
		}
		texts = append(texts, text)
	}
	return k.setTexts(s, texts)
}

// setText puts a value of the environment or the command line where it belongs.
// A list has commas in between.
func (k Key) setText(s *Settings, text string) (err error) {
	switch at := k.at(s).(type) {
	case *string:
		*at = text
	case *bool:
		*at, err = parseBool(text)
	case *int:
		var n int64
		n, err = k.parseNumber(text, math.MaxInt32)
		*at = int(n)
	case *int64:
		*at, err = k.parseNumber(text, math.MaxInt64)
	case *time.Duration:
		*at, err = parseDuration(text)
	case *slog.Level:
		*at, err = parseLevel(text)
	default:
		var texts []string
		for part := range strings.SplitSeq(text, ",") {
			texts = append(texts, strings.TrimSpace(part))
		}
		err = k.setTexts(s, texts)
	}
	return err
}

func (k Key) setTexts(s *Settings, texts []string) error {
	switch at := k.at(s).(type) {
	case *[]string:
		*at = texts
		return nil
	case *[]netip.Prefix:
		var prefixes []netip.Prefix
		for _, text := range texts {
			p, err := parsePrefix(text)
			if err != nil {
				return err
			}
			prefixes = append(prefixes, p)
		}
		*at = prefixes
		return nil
	}
	return k.wrongKind()
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// parseNumber reads a count or a number of bytes, both at least 1.
func (k Key) parseNumber(text string, most int64) (int64, error) {
	if k.Kind == KindBytes {
		return ParseBytes(text)
	}
	return parseInt(text, text, 1, most, "no number")
}

// ParseBytes reads a number of bytes, at least 1: digits alone, or with one of
// the units B, KiB, MiB, GiB and TiB, or kB, MB, GB and TB.
func ParseBytes(text string) (int64, error) {
	digits, factor := cutUnit(text)
	return parseInt(text, digits, factor, math.MaxInt64, "no number of bytes such as 64MiB")
}

// parseInt reads the digits of a text, each worth factor.
func parseInt(text, digits string, factor, most int64, otherwise string) (int64, error) {
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("%q is %s", text, otherwise)
	case err != nil || n > most/factor:
		return 0, fmt.Errorf("%s is too large", text)
	case n < 1:
		return 0, fmt.Errorf("%s is less than 1", text)
	}
	return n * factor, nil
}

func cutUnit(text string) (digits string, factor int64) {
	for _, u := range units {
		if d, ok := strings.CutSuffix(text, u.suffix); ok {
			return strings.TrimSpace(d), u.bytes
		}
	}
	return text, 1
}

// What a timeout can be. Below lies work without a pause, above what sums of
// them cannot express.
const (
	leastDuration = time.Millisecond
	mostDuration  = 365 * 24 * time.Hour
)

func parseDuration(text string) (time.Duration, error) {
	d, err := span.Parse(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf(`%q is no duration such as "90s"`, text)
	case d <= 0:
		return 0, fmt.Errorf("%s is not above zero", text)
	case d < leastDuration:
		return 0, fmt.Errorf("%s is less than %s", text, leastDuration)
	case d > mostDuration:
		return 0, fmt.Errorf("%s is more than a year", text)
	}
	return d, nil
}

func parseLevel(text string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if text == levelText(level) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%q is none of debug, info, warn and error", text)
}

func levelText(level slog.Level) string { return strings.ToLower(level.String()) }

// mappedBits are those of the network of all IPv4-mapped addresses.
const mappedBits = 96

// parsePrefix reads a network, or an address for the network that is just it.
// IPv4-mapped ones count as IPv4, as an address that is compared with them does.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no network such as 10.0.0.0/8", text)
	}
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p.Masked(), nil
}

// format returns the value as the file has it.
func (k Key) format(s *Settings) string {
	switch at := k.at(s).(type) {
	case *string:
		return quote(*at)
	case *bool:
		return strconv.FormatBool(*at)
	case *int:
		return strconv.Itoa(*at)
	case *int64:
		if k.Kind == KindBytes {
			return formatBytes(*at)
		}
		return strconv.FormatInt(*at, 10)
	case *time.Duration:
		return quote(formatDuration(*at))
	case *slog.Level:
		return quote(levelText(*at))
	case *[]string:
		return quoteAll(*at)
	case *[]netip.Prefix:
		var texts []string
		for _, p := range *at {
			texts = append(texts, p.String())
		}
		return quoteAll(texts)
	}
	return ""
}

// formatBytes uses the largest unit that leaves a whole number.
func formatBytes(n int64) string {
	for _, u := range slices.Backward(binaryUnits) {
		if n >= u.bytes && n%u.bytes == 0 {
			return quote(strconv.FormatInt(n/u.bytes, 10) + u.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}

// formatDuration is Duration.String without the parts that are zero.
func formatDuration(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	if text == "" || text[len(text)-1] >= '0' && text[len(text)-1] <= '9' {
		return d.String()
	}
	return text
}

// quote writes a basic string of TOML.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoteAll(texts []string) string {
	var quoted []string
	for _, t := range texts {
		quoted = append(quoted, quote(t))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
