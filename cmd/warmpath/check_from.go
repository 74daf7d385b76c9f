package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/migrate"
)

// fromFlag adds --from to the check command, with its arguments.
func fromFlag(cmd *cobra.Command) *string {
	var from string
	cmd.Flags().StringVar(&from, "from",
		"", "`ROUTER` whose configuration FILE, or command line after --, is converted: "+
			strings.Join(migrate.Names(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("from",
		cobra.FixedCompletions(migrate.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if from == "" {
			return onlyURLs(cmd, args)
		}
		return nil
	}
	return &from
}

// checkFrom writes the equivalent of another router's configuration to standard output, and settings without one to
// standard error.
func checkFrom(cmd *cobra.Command, e env, from string, args []string) error {
	result, err := converted(cmd, from, args)
	if err != nil {
		return usageError(err)
	}
	text := fmt.Sprintf("# What %s was told, in the words of warmpath.\n%s", from, result.YAML)
	if _, err := io.WriteString(e.stdout, text); err != nil {
		return err
	}
	for _, m := range result.Missing {
		fmt.Fprintln(e.stderr, m)
	}
	if _, err := config.Parse("(result)", result.YAML, nil); err != nil {
		return usageError(fmt.Errorf("the result would not pass warmpath check:\n%w", err))
	}
	return nil
}

func converted(cmd *cobra.Command, from string, args []string) (migrate.Result, error) {
	if !slices.Contains(migrate.Names(), from) {
		_, err := migrate.Flags(from, nil)
		return migrate.Result{}, fmt.Errorf("--from: %w", err)
	}
	switch dash := cmd.ArgsLenAtDash(); {
	case dash >= 0 && dash < len(args):
		if dash > 0 {
			return migrate.Result{}, fmt.Errorf("give FILE or a command line after --, not both (%q)", args[0])
		}
		return migrate.Flags(from, args)
	case len(args) != 1:
		return migrate.Result{},
			errors.New("--from needs one FILE, or a command line after --; see warmpath check --help")
	}
	data, err := readSome(args[0])
	if err != nil {
		return migrate.Result{}, err
	}
	return migrate.File(from, filepath.ToSlash(args[0]), data)
}
