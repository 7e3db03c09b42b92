package wire

import (
	"fmt"
	"math"
	"strconv"
)

// AsInt returns the value of v as a wire integer: a number whose value is an
// integer in [0, 2^53-1]. The lexical form does not matter (02#wire-integers).
func (v Value) AsInt() (int64, bool) {
	if v.kind != Number || v.num < 0 || v.num > MaxInt || v.num != math.Trunc(v.num) {
		return 0, false
	}
	return int64(v.num), true
}

// AsSignedInt returns the value of v as an integer in [-(2^53-1), 2^53-1], the
// range of a schema's integers (08#schema-dialect).
func (v Value) AsSignedInt() (int64, bool) {
	if v.kind != Number || v.num < -MaxInt || v.num > MaxInt || v.num != math.Trunc(v.num) {
		return 0, false
	}
	return int64(v.num), true
}

// Decimal returns the base-10 form of a wire integer (02#wire-integers).
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// CheckTime reports an error unless now, a clock reading in Unix seconds, is a
// wire integer: no check may fail open on a broken clock (02#wire-integers).
func CheckTime(now int64) error {
	if now < 0 || now > MaxInt {
		return fmt.Errorf("clock reading %d is not a wire integer", now)
	}
	return nil
}
