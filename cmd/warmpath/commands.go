package main

import "github.com/spf13/cobra"

// commands lists what the program can do, in the order of --help.
func commands(e env) []*cobra.Command {
	all := []*cobra.Command{
		serveCommand(e), demoCommand(e), checkCommand(e), engineCommand(e), benchCommand(e), simulateCommand(e), versionCommand(e),
	}
	for _, c := range all {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return append(all, explainCommand(e))
}
