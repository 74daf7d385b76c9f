package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
)

// otherCommands are names that other programs have for commands.
var otherCommands = map[string]string{
	"migrate": "check --from", "convert": "check --from", "import": "check --from", "validate": "check",
	"lint": "check", "run": "serve", "start": "serve", "launch": "serve", "status": "top", "list": "endpoints",
}

// unknownCommand names the nearest command.
func unknownCommand(cmd *cobra.Command, got string) error {
	if own := otherCommands[got]; own != "" && !cmd.HasParent() {
		return usageError(fmt.Errorf("unknown command %q; here it is %q", got, own))
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError(fmt.Errorf("unknown command %q%s",
		got, cmp.Or(strictyaml.Suggest(got, names), "; see "+cmd.CommandPath()+" --help")))
}

// otherNames are names that other routers and servers have for flags.
var otherNames = map[string]string{
	"port": "listen", "host": "listen", "bind": "listen", "address": "listen", "addr": "listen",
	"engine": "endpoint", "engines": "endpoint", "backend": "endpoint", "backends": "endpoint", "upstream": "endpoint",
	"worker-urls": "endpoint", "static-backends": "endpoint", "worker": "endpoint", "url": "endpoint",
	"routing-logic": "policy", "routing-policy": "policy", "output": "write", "duration": "for", "for": "duration",
}

// flagError names the nearest flag and says where help is, in the same line.
func flagError(cmd *cobra.Command, err error) error {
	if got, ok := strings.CutPrefix(err.Error(), "unknown flag: "); ok {
		name := strings.TrimPrefix(got, "--")
		if in := commandsWith(cmd, func(f *pflag.FlagSet) bool { return f.Lookup(name) != nil }); len(in) > 0 {
			return usageError(fmt.Errorf("%s is a flag of %s, so it follows the command, as in warmpath %s %s",
				got, strings.Join(in, ", "), in[0], got))
		}
		if own := otherNames[name]; own != "" && cmd.Flags().Lookup(own) != nil {
			return usageError(fmt.Errorf("unknown flag %s; here it is --%s; see %s --help",
				got, own, cmd.CommandPath()))
		}
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) })
		err = fmt.Errorf("unknown flag %s%s", got, strictyaml.Suggest(got, flags))
	}
	text := err.Error()
	if _, got, ok := strings.Cut(text, "unknown shorthand flag: "); ok {
		name, _, _ := strings.Cut(strings.TrimPrefix(got, "'"), "'")
		if in := commandsWith(cmd, func(f *pflag.FlagSet) bool {
			return len(name) == 1 && f.ShorthandLookup(name) != nil
		}); len(in) > 0 {
			return usageError(fmt.Errorf("-%s is a flag of %s, so it follows the command, as in warmpath %s -%s",
				name, strings.Join(in, ", "), in[0], name))
		}
	}
	if what, ok := strings.CutSuffix(text, ": invalid syntax"); ok { // of strconv, behind what was given for which flag
		what, _, _ = strings.Cut(what, ": strconv.")
		text = what + ": it is not a number"
	}
	if what, _, ok := strings.Cut(text, ": time: missing unit in duration"); ok {
		text = what + ": a duration has a unit, such as 30s, 5m or 1h"
	}
	text = strings.TrimRight(text, "\n")
	if !strings.HasSuffix(text, "?") {
		text += ";"
	}
	return usageError(fmt.Errorf("%s see %s --help", text, cmd.CommandPath()))
}

// commandsWith are the commands below cmd that have a flag, those that most people mean first; none below a command
// without any.
func commandsWith(cmd *cobra.Command, has func(*pflag.FlagSet) bool) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && has(c.Flags()) {
			names = append(names, c.Name())
		}
	}
	if at := slices.Index(names, "serve"); at > 0 {
		names = slices.Insert(slices.Delete(names, at, at+1), 0, "serve")
	}
	return names
}

// noArgs refuses arguments in one line that says what to do.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("unexpected argument %q%s; see %s --help",
		args[0], meantFlag(cmd, args[0]), cmd.CommandPath()))
}

// meantFlag is "; did you mean --endpoint X" for an address or a file that a flag of the command takes.
func meantFlag(cmd *cobra.Command, arg string) string {
	names := []string{"endpoint", "url", "admin"}
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") || strings.HasSuffix(arg, ".json") {
		names = []string{"config", "trace"}
	} else if !strings.Contains(arg, ":") {
		return ""
	}
	for _, name := range names {
		if cmd.Flags().Lookup(name) != nil {
			return "; did you mean --" + name + " " + arg
		}
	}
	return ""
}

// onlyURLs takes the addresses of engines, each with a scheme or a port. Another word is most likely a mistyped option
// or a file.
func onlyURLs(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if !strings.Contains(a, ":") {
			return usageError(fmt.Errorf("unexpected argument %q%s; see %s --help",
				a, cmp.Or(meantFlag(cmd, a), "; an engine is given as http://127.0.0.1:8000"), cmd.CommandPath()))
		}
	}
	return nil
}

// onlyCommands rejects arguments of a command with subcommands: the argument is an unknown subcommand.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// completePolicies completes the values of the flags policy and shadow.
func completePolicies(cmd *cobra.Command) {
	var names []cobra.Completion
	for _, name := range policy.Names() {
		names = append(names, cobra.CompletionWithDesc(name, policy.Describe(name)))
	}
	for _, flag := range []string{"policy", "shadow"} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}
