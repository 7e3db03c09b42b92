package cli

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/span"
	"github.com/ace-toolkit/ace/relaysvc"
)

// chaosAnswer is the chaos of a relay in its ready line.
type chaosAnswer struct {
	Drop    float64 `json:"drop"`
	Dup     float64 `json:"dup"`
	Error   float64 `json:"error"`
	DelayMS int64   `json:"delay_ms"`
	Seed    int64   `json:"seed"`
}

// String is the value of --chaos that plays the same.
func (c *chaosAnswer) String() string {
	return fmt.Sprintf("drop=%v,dup=%v,delay=%s,error=%v,seed=%d", c.Drop, c.Dup, time.Duration(c.DelayMS)*time.Millisecond, c.Error, c.Seed)
}

func describeChaos(c *relaysvc.Chaos) *chaosAnswer {
	return &chaosAnswer{Drop: c.Drop, Dup: c.Dup, Error: c.Error, DelayMS: c.Delay.Milliseconds(), Seed: int64(c.Seed)}
}

// parseChaos reads the value of --chaos: KEY=VALUE, separated by commas. A seed
// that is not given is drawn, and the ready line tells it.
func parseChaos(text string) (*relaysvc.Chaos, error) {
	c := &relaysvc.Chaos{Seed: uint64(binary.BigEndian.Uint32(suite.RandomBytes(4)))}
	given := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, usagef("--chaos: %q is not KEY=VALUE", part)
		}
		if given[key] {
			return nil, usagef("--chaos: %s is given twice", key)
		}
		given[key] = true
		if err := setChaos(c, key, value); err != nil {
			return nil, err
		}
	}
	if c.Drop == 0 && c.Dup == 0 && c.Error == 0 && c.Delay == 0 {
		return nil, usagef("--chaos %s: no fault is asked for; name drop, dup, error or delay", text)
	}
	return c, nil
}

func setChaos(c *relaysvc.Chaos, key, value string) (err error) {
	switch key {
	case "drop":
		c.Drop, err = probability(value)
	case "dup":
		c.Dup, err = probability(value)
	case "error":
		c.Error, err = probability(value)
	case "delay":
		c.Delay, err = span.Parse(value)
		if err != nil || c.Delay < time.Millisecond && c.Delay != 0 || c.Delay > relaysvc.MaxChaosDelay {
			err = fmt.Errorf("%q is no time from 1ms to %s", value, relaysvc.MaxChaosDelay)
		}
	case "seed":
		c.Seed, err = strconv.ParseUint(value, 10, 64)
		if err != nil || c.Seed > wire.MaxInt {
			err = fmt.Errorf("%q is no number from 0 to %d", value, int64(wire.MaxInt))
		}
	default:
		unknown := usagef("--chaos: unknown fault %q", key)
		keys := []string{"drop", "dup", "error", "delay", "seed"}
		if near := nearest(key, keys); near != "" {
			return hintf(unknown, "did you mean %s?", near)
		}
		return hintf(unknown, "one of %s", strings.Join(keys, ", "))
	}
	if err != nil {
		return usagef("--chaos: %s: %v", key, err)
	}
	return nil
}

func probability(text string) (float64, error) {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%q is no probability from 0 to 1", text)
	}
	return p, nil
}
