package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/terminal"
)

// narrow wraps the help of a command and its subcommands at 80 columns.
func narrow(c *cobra.Command) {
	c.Long = terminal.Wrap(c.Long)
	for _, below := range c.Commands() {
		narrow(below)
	}
	if !c.HasParent() {
		c.SetUsageFunc(usage)
	}
}

// usage is cobra's usage text, with flags in 80 columns. It is not a template: a program that contains Go's template
// engine keeps every method of every type, which makes warmpath half as large again (.ci/run checks its size).
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() || below.Name() == "help" {
				fmt.Fprintf(&b, "\n  %-*s %s", below.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	flags := func(title string, some bool, set *pflag.FlagSet) {
		if some {
			b.WriteString("\n\n" + title + ":\n" + strings.TrimRight(set.FlagUsagesWrapped(terminal.Columns), " \n"))
		}
	}
	flags("Flags", c.HasAvailableLocalFlags(), c.LocalFlags())
	flags("Global Flags", c.HasAvailableInheritedFlags(), c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", c.CommandPath())
	}
	c.Println(b.String())
	return nil
}
