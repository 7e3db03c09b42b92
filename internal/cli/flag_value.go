package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/internal/span"
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
	case "bool":
		return fmt.Sprintf("%q is neither true nor false", value)
	}
	return invalid.Unwrap().Error()
}

// durationFlag is an option whose value is a length of time, days and weeks
// included.
type durationFlag struct{ at *time.Duration }

// durationVar adds such an option.
func durationVar(f *pflag.FlagSet, at *time.Duration, name string, byDefault time.Duration, usage string) {
	*at = byDefault
	f.Var(durationFlag{at}, name, usage)
	if byDefault == 0 {
		f.Lookup(name).DefValue = "0" // keeps "0s" out of help
	}
}

func (f durationFlag) Set(text string) (err error) {
	d, err := span.Parse(text)
	if err == nil {
		*f.at = d
	}
	return err
}

func (f durationFlag) Type() string { return "duration" }

func (f durationFlag) String() string {
	if f.at == nil { // of the zero value, which pflag makes to tell defaults
		return ""
	}
	return span.String(*f.at)
}
