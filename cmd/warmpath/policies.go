package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/policy"
)

const nameColumns = 32

// listedPolicy is a line of policies --json.
type listedPolicy struct {
	Name    string `json:"name"`
	Default bool   `json:"default,omitempty"`
	Other   bool   `json:"other_router,omitempty"` // the rule of another router or of a paper
	Meaning string `json:"meaning"`
}

func policiesCommand(e env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "List the policies that choose endpoints",
		Long: `policies lists what --policy and the key policy accept: warmpath's own policies, then the rules of other routers, which serve
for migration and comparison. docs/choosing.md says how to choose.`,
		Example: `  warmpath policies
  warmpath policies --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			listed := listPolicies()
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(listed)
			}
			for i, p := range listed {
				if i > 0 && p.Other && !listed[i-1].Other {
					fmt.Fprintln(e.stdout, "\nRules of other routers:")
				}
				name := p.Name
				if p.Default {
					name += " (default)"
				}
				terminal.Entry(e.stdout, nameColumns, name, p.Meaning)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listPolicies lists our own policies before those of other routers, each by name.
func listPolicies() []listedPolicy {
	var own, others []listedPolicy
	for _, name := range policy.Names() {
		p := listedPolicy{
			Name: name, Meaning: policy.Describe(name), Default: name == (policy.Config{}).WithDefaults().Name,
		}
		if p.Other = slices.Contains(policy.RivalNames(), name); p.Other {
			others = append(others, p)
		} else {
			own = append(own, p)
		}
	}
	return append(own, others...)
}
