package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagValues gives every option of every command a value that is none of
// its kind, also through its variable: the error names the option and says so
// in plain words.
func TestFlagValues(t *testing.T) {
	a := &app{io: newStage(t).io("")}
	checked := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"nonsense", "99999999999999999999", "5 parsecs", `"`} {
				err := c.Flags().Set(f.Name, value)
				if err == nil {
					continue
				}
				checked++
				text := optionText(err)
				if !strings.HasPrefix(text, "--"+f.Name+": ") || strings.Contains(text, "strconv") || strings.Contains(text, "time: ") {
					t.Errorf("%s --%s %s: %s", c.CommandPath(), f.Name, value, text)
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(a.root(nil))
	if checked < 50 {
		t.Errorf("only %d values were refused", checked)
	}
	s := newStage(t)
	s.env["ACE_TIMEOUT"] = "soon"
	if r := s.try("version"); r.status != exitUsage || !strings.Contains(r.err, `ace: ACE_TIMEOUT: "soon" is no duration`) {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
