// Package span reads lengths of time as people write them: those of Go, with days
// and weeks before them.
package span

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longest is the most that is read, in days: what a time.Duration holds is little
// more than twice that.
const longest = 100 * 366

// Parse reads "90s" and "1h30m" as [time.ParseDuration] does, and also "7d", "2w"
// and "1w2d12h". A day has 24 hours. With days, nothing in the text is negative.
func Parse(text string) (time.Duration, error) {
	rest, days, err := cutDays(text)
	if err != nil {
		return 0, err
	}
	if rest == "" && days >= 0 {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || days >= 0 && d < 0 {
		return 0, fmt.Errorf("%q is no duration such as 90s, 12h or 7d", text)
	}
	return time.Duration(max(days, 0))*24*time.Hour + d, nil
}

// cutDays takes weeks and days from the start of a text; days is -1 without any.
func cutDays(text string) (rest string, days int64, err error) {
	rest, days = text, -1
	for _, unit := range []struct {
		name string
		days int64
	}{{"w", 7}, {"d", 1}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil || int64(n)*unit.days > longest {
			return "", 0, fmt.Errorf("%q is no duration such as 90s, 12h or 7d", text)
		}
		rest, days = after, max(days, 0)+int64(n)*unit.days
	}
	return rest, days, nil
}

// String writes a duration without the parts that are zero, and whole days as
// such: "7d", "36h", "1h30m".
func String(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
