package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/doctor"
	"github.com/warmpath/warmpath/internal/starter"
)

// initOptions are the flags of init.
type initOptions struct {
	endpoints []string
	file, key string
	wait      time.Duration
}

func initCommand(e env) *cobra.Command {
	o := initOptions{file: "warmpath.yaml", wait: 3 * time.Second}
	c := &cobra.Command{
		Use:   "init [URL...]",
		Short: "Write a commented configuration to start with",
		Long: `init writes a configuration with a comment on each setting that most people touch. It asks the engines at the URLs for their kind
and their settings, and writes beside each what to change there; it sends no prompts. --endpoint takes an engine as it is, without asking.
An engine that does not answer is written all the same. A file that exists is never overwritten.

doctor --write writes the same file after it has also measured the engines.`,
		Example: `  warmpath init
  warmpath init 10.0.0.1:8000 10.0.0.2:8000
  warmpath init --endpoint http://10.0.0.1:8000,weight=2 --output /tmp/w.yaml
  warmpath init http://127.0.0.1:8000 --output -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return runInit(c, e, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVar(&o.endpoints, "endpoint", nil,
		"engine `URL` that is not asked, repeatable; options follow after commas, as for serve")
	f.StringVarP(&o.file, "output", "o", o.file, "new `FILE`; - is standard output")
	f.StringVar(&o.key, "key", "", "bearer `TOKEN` of the engines that are asked; it is not written")
	f.DurationVar(&o.wait, "wait", o.wait, "how long an engine may take to answer")
	_ = c.RegisterFlagCompletionFunc("endpoint",
		cobra.FixedCompletions([]string{"http://", "https://"}, cobra.ShellCompDirectiveNoSpace))
	_ = c.MarkFlagFilename("output", "yaml", "yml")
	return c
}

// runInit asks the engines and writes the file.
func runInit(c *cobra.Command, e env, o initOptions, args []string) error {
	urls, err := engineURLs(args)
	if err != nil {
		return err
	}
	if o.wait <= 0 || o.wait > time.Minute {
		return usageError(fmt.Errorf("--wait must be above 0s and at most 1m, not %s", o.wait))
	}
	if err := writable("--output", o.file); err != nil {
		return usageError(err)
	}
	var endpoints []starter.Endpoint
	for _, at := range urls {
		r := doctor.Examine(c.Context(), at, doctor.Options{Key: o.key, Quick: true, Wait: o.wait})
		if c.Context().Err() != nil {
			return nil
		}
		switch {
		case !r.Healthy:
			fmt.Fprintf(e.stderr, "%s: not healthy now: %s\n", at, r.Detail)
		case len(r.Models) == 0:
			fmt.Fprintf(e.stderr, "%s: %s: %s\n", at, r.Kind, r.Detail)
		default:
			fmt.Fprintf(e.stderr, "%s: %s\n", at, strings.Join(append([]string{r.Kind}, r.Models...), " "))
		}
		endpoints = append(endpoints, r.Endpoint())
	}
	for _, at := range o.endpoints {
		endpoints = append(endpoints, starter.Endpoint{URL: at})
	}
	text := starter.File(endpoints)
	if _, err := config.Parse(o.file, []byte(text), nil); err != nil {
		return usageError(fmt.Errorf("--endpoint: not valid:\n%w", err))
	}
	if o.file == "-" {
		_, err := io.WriteString(e.stdout, text)
		return err
	}
	if err := writeNew("--output", o.file, text); err != nil {
		return err
	}
	next := "check it with: warmpath check -c " + o.file + "\nrun it with:   warmpath serve -c " + o.file
	if len(endpoints) == 0 {
		next = "name your engines in it under endpoints; then\n" + next
	}
	_, err = fmt.Fprintf(e.stderr, "written: %s\n%s\n", o.file, next)
	return err
}
