package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `man writes a manual page (section 1) for each command into a folder, which it makes if need be. Packages of warmpath have them already.
The date in them is that of the source, so that a build gives the same pages again.`,
		Example: `  warmpath man /usr/local/share/man/man1
  warmpath man pages && man -l pages/warmpath-serve.1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(fmt.Errorf("name one folder; see %s --help", c.CommandPath()))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			header := &doc.GenManHeader{Section: "1", Source: "warmpath " + e.version.Version, Manual: "warmpath manual"}
			if at, err := time.Parse(time.RFC3339, e.version.Time); err == nil {
				header.Date = &at
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the tag contains the date
			if err := doc.GenManTree(root, header, dir); err != nil {
				return err
			}
			_, err := fmt.Fprintf(e.stderr, "written: %s/warmpath*.1\n", dir)
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
}
