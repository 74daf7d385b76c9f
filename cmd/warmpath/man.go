package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
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
			date := ""
			if at, err := time.Parse(time.RFC3339, e.version.Time); err == nil {
				date = at.Format("Jan 2006")
			}
			for _, of := range withPages(c.Root()) {
				page := manPage(of, date, "warmpath "+e.version.Version)
				if err := os.WriteFile(filepath.Join(dir, pageName(of)+".1"), []byte(page), 0o644); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(e.stderr, "written: %s/warmpath*.1\n", dir)
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
}
