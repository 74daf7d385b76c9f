package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// withPages lists a command and those below it that have manual pages.
func withPages(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, withPages(below)...)
		}
	}
	return all
}

// pageName is what a command's manual page is called, without its section.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's manual page in the language of man(7). date is empty when it is not known.
func manPage(c *cobra.Command, date, source string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"%s\" \"%s\" \"warmpath manual\"\n.nh\n",
		strings.ToUpper(pageName(c)), date, source)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fP\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	for i, part := range strings.Split(c.Long, "\n\n") {
		if part == "" {
			part = c.Short
		}
		if i > 0 {
			b.WriteString(".PP\n")
		}
		// its lines stay as they are
		if strings.HasPrefix(part, " ") || strings.Contains(part, "\n ") || strings.Contains(part, "\n\t") {
			part = ".EX\n" + roff(part) + "\n.EE"
		} else {
			part = roff(part)
		}
		b.WriteString(part + "\n")
	}
	c.InitDefaultHelpFlag()
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLE\n.EX\n%s\n.EE\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, c.Parent().CommandPath())
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			also = append(also, below.CommandPath())
		}
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n")
	}
	for i, path := range also {
		end := ","
		if i == len(also)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(strings.ReplaceAll(path, " ", "-")), end)
	}
	return b.String()
}

// manFlags writes a section of flags, in the order of --help.
func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, ".SH %s\n", title)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB%s\\fP, ", roff("-"+f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB%s\\fP", roff("--"+f.Name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fP", roff(value))
		}
		if !slices.Contains([]string{"", "[]", "false", "0", "0s"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
	})
}

// roff writes a text so that man(7) shows it as it is: no line of it is a request, and a hyphen is one that can be
// copied.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
