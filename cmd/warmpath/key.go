package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

// newKey is what key --json prints.
type newKey struct {
	Key    string `json:"key"`    // for the client
	Config string `json:"config"` // for the configuration
}

func keyCommand(e env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "key",
		Short: "Make an API key for a client",
		Long: `key makes a random API key of 256 bits, and prints it with its form for tenants.api_keys in the configuration: a hash, which does
not reveal the key. Neither is kept anywhere: give the key to the client now.`,
		Example: `  warmpath key
  warmpath key --json

  # In the configuration:
  #   tenants: {required: true, api_keys: [{tenant: red, key: "sha256:..."}]}`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			var k newKey
			k.Key, k.Config = config.NewKey()
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(k)
			}
			_, err := fmt.Fprintf(e.stdout, "key     %s\nconfig  %s\n", k.Key, k.Config)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
