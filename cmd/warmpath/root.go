package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newRoot is the command tree. Each run makes a new one, so that no flag value survives.
func newRoot(e env) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "A router for self-hosted LLM engines",
		Long: `warmpath stands in front of self-hosted LLM engines (vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama) and
sends each request where it will be answered soonest: usually to the engine that holds the conversation's KV cache.`,
		Example: `  # Route over two engines
  warmpath serve http://127.0.0.1:9001 http://127.0.0.1:9002

  # Examine an engine, and write a configuration to start with
  warmpath doctor http://127.0.0.1:9001
  warmpath init http://127.0.0.1:9001 http://127.0.0.1:9002

  # Check a configuration without starting, and run it
  warmpath check -c warmpath.yaml
  warmpath serve -c warmpath.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if version {
				fmt.Fprintln(cmd.OutOrStdout(), e.version)
				return nil
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(commands(e)...)
	strictHelp(root)
	narrow(root)
	return root
}

// strictHelp makes errors of unknown topics of help and of unknown shells of completion, where cobra shows a help that
// fits any.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			show := c.Run
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if found, _, err := root.Find(args); err != nil || found == nil || len(args) > 0 && found == root {
					return unknownCommand(root, args[0])
				}
				show(cmd, args)
				return nil
			}
		case "completion":
			c.Short = "Write command completion for a shell"
			c.Long = "completion prints a script that completes commands, flags and their values. " +
				"completion SHELL --help says how to install it."
			c.Example = `  source <(warmpath completion bash)
  source <(warmpath completion zsh)
  warmpath completion fish | source`
			c.Args = onlyCommands
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// commands lists the commands, in the order of --help.
func commands(e env) []*cobra.Command {
	all := []*cobra.Command{
		serveCommand(e), extprocCommand(e), demoCommand(e), checkCommand(e), engineCommand(e), benchCommand(e),
		simulateCommand(e), policiesCommand(e), versionCommand(e), initCommand(e), keyCommand(e), manCommand(e),
	}
	for _, c := range all {
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return append(all, explainCommand(e), endpointsCommand(e), topCommand(e), drainCommand(e), doctorCommand(e))
}
