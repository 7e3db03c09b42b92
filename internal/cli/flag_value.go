package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// optionText says what is wrong with the options of a command.
func optionText(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	return "--" + invalid.GetFlag().Name + ": " + valueText(err)
}

// valueText says what is wrong with the value of an option, in the words of this
// program where it is none of its kind.
func valueText(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	value := invalid.GetValue()
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Sprintf("%s is out of range", value)
	}
	switch invalid.GetFlag().Value.Type() {
	case "int", "int64", "float64":
		return fmt.Sprintf("%q is no number", value)
	case "duration":
		return fmt.Sprintf("%q is no duration such as 90s", value)
	case "bool":
		return fmt.Sprintf("%q is neither true nor false", value)
	}
	return invalid.Unwrap().Error()
}
