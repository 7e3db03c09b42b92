package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newGenCmd writes the files of the repository that are made from the commands.
func newGenCmd(a *app) *cobra.Command {
	var check bool
	c := &cobra.Command{Use: "gen [DIR]", Short: "Write man/ and completions/", Hidden: true}
	c.Flags().BoolVar(&check, "check", false, "write nothing, and fail when a file would change")
	return a.leaf(c, 0, 1, nil, func(_ context.Context, args []string) error {
		dir := "."
		if len(args) == 1 {
			dir = args[0]
		}
		return runGen(a, c.Root(), dir, check)
	})
}

func runGen(a *app, root *cobra.Command, dir string, check bool) error {
	files, err := a.generated(root)
	if err != nil {
		return err
	}
	for folder, texts := range files {
		if check {
			err = compareFiles(filepath.Join(dir, folder), texts)
		} else {
			err = writeFiles(filepath.Join(dir, folder), texts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// generated returns the generated files by folder and name.
func (a *app) generated(root *cobra.Command) (map[string]map[string][]byte, error) {
	names := map[string]string{"bash": "ace.bash", "zsh": "_ace", "fish": "ace.fish", "powershell": "ace.ps1"}
	completions := map[string][]byte{}
	for shell, write := range shells(root) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		completions[names[shell]] = b.Bytes()
	}
	return map[string]map[string][]byte{"man": a.manPages(root), "completions": completions}, nil
}

// compareFiles reports a file of a folder that differs, is missing or should
// not be there.
func compareFiles(dir string, texts map[string][]byte) error {
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%s is not up to date", filepath.Join(dir, name))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := texts[e.Name()]; !ok {
			return fmt.Errorf("%s is made by no command any more", filepath.Join(dir, e.Name()))
		}
	}
	return nil
}
