package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// newRoot is the command tree. It is made anew for each run, so that no flag value survives.
func newRoot(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "A router for self-hosted LLM engines",
		Long: `warmpath stands in front of self-hosted LLM engines (vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama) and
sends each request where it will be answered soonest: usually to the engine that holds the conversation's KV cache.`,
		Example: `  # Route over two engines
  warmpath serve --endpoint http://127.0.0.1:9001 --endpoint http://127.0.0.1:9002

  # Check a configuration without starting
  warmpath check -c warmpath.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(commands(e)...)
	return root
}

// unknownCommand names the nearest command.
func unknownCommand(cmd *cobra.Command, got string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError(fmt.Errorf("unknown command %q%s", got, strictyaml.Suggest(got, names)))
}

// flagError names the nearest flag and says where help is, in the same line.
func flagError(cmd *cobra.Command, err error) error {
	if got, ok := strings.CutPrefix(err.Error(), "unknown flag: "); ok {
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) })
		err = fmt.Errorf("unknown flag %s%s", got, strictyaml.Suggest(got, flags))
	}
	return usageError(fmt.Errorf("%s; see %s --help", strings.TrimRight(err.Error(), "\n"), cmd.CommandPath()))
}

// noArgs refuses arguments in one line that says what to do.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath()))
}

// onlyCommands is for one that has others below it: an argument is the name of one of those.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}
