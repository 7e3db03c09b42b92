package interop_test

import (
	"os"
	"testing"

	"github.com/ace-toolkit/ace/internal/cli"
)

// TestMain makes the test binary the program ace when ACE_TEST_PROGRAM is set,
// so that tests run the real program as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("ACE_TEST_PROGRAM") != "" {
		os.Exit(cli.Main(os.Args[1:], cli.System()))
	}
	os.Exit(m.Run())
}
