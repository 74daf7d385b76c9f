package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func versionCommand(e env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  warmpath version
  warmpath version --json`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(e.version)
			}
			_, err := fmt.Fprintln(e.stdout, e.version)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
