package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/doctor"
	"github.com/warmpath/warmpath/internal/starter"
)

func doctorCommand(e env) *cobra.Command {
	var (
		o      doctor.Options
		asJSON bool
		file   string
	)
	c := &cobra.Command{
		Use:   "doctor URL...",
		Short: "Examine engines: kind, cache, speed, and what to change",
		Long: `doctor asks each engine what it is, and sends it about eight prompts of up to 1,500 tokens to measure it: whether its prefix cache
works and is reported, prefill and decode speed, whether it computes prompts one after another, and whether it stops when a client
leaves. Best run while the engine has no other traffic. The exit code is 1 if an engine is not healthy.`,
		Example: `  warmpath doctor http://127.0.0.1:9001 http://127.0.0.1:9002
  warmpath doctor 10.0.0.1:8000 --key SECRET --quick
  warmpath doctor 10.0.0.1:8000 10.0.0.2:8000 --write warmpath.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("name the engines, such as http://127.0.0.1:8000"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runDoctor(c.Context(), e, o, args, file, asJSON)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Key, "key", "", "bearer `TOKEN` of the engines")
	f.StringVar(&o.Model, "model", "", "model to ask for; empty takes each engine's first")
	f.BoolVar(&o.Quick, "quick", false, "only ask, send no prompts")
	f.DurationVar(&o.Wait, "wait", 0, "how long to wait for an engine that is not healthy yet (default 10s)")
	f.StringVarP(&file, "write", "o", "", "new `FILE` that gets a configuration for these engines")
	f.BoolVar(&asJSON, "json", false, "print JSON, one engine a line")
	return c
}

// runDoctor examines the engines, and writes a configuration for them if a file is named.
func runDoctor(ctx context.Context, e env, o doctor.Options, args []string, file string, asJSON bool) error {
	args, err := engineURLs(args)
	if err != nil {
		return err
	}
	sick := 0
	var reports []*doctor.Report
	for i, at := range args {
		if !asJSON && e.terminal {
			fmt.Fprintf(e.stderr, "examining %s ...\n", at)
		}
		r := doctor.Examine(ctx, at, o)
		if ctx.Err() != nil {
			return nil
		}
		reports = append(reports, r)
		if !r.Healthy {
			sick++
		}
		if asJSON {
			if err := json.NewEncoder(e.stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		r.Show(e.stdout)
	}
	if file != "" {
		if err := writeNew("--write", file, starter.File(endpointsOf(reports))); err != nil {
			return err
		}
		fmt.Fprintf(e.stderr, "written: %s; run it with: warmpath serve -c %s\n", file, file)
	}
	if sick > 0 {
		return fmt.Errorf("engines that are not healthy: %d of %d", sick, len(args))
	}
	return nil
}

// engineURLs makes base addresses from user input: with or without a scheme, a slash or the API's /v1 at the end.
func engineURLs(args []string) ([]string, error) {
	urls := make([]string, len(args))
	for i, at := range args {
		if !strings.Contains(at, "://") {
			at = "http://" + at
		}
		if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usageError(fmt.Errorf("%q is not an engine's address such as http://127.0.0.1:8000", args[i]))
		}
		urls[i] = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(at, "/"), "/v1"), "/")
	}
	return urls, nil
}

// endpointsOf are the examined engines, for the file.
func endpointsOf(reports []*doctor.Report) []starter.Endpoint {
	out := make([]starter.Endpoint, len(reports))
	for i, r := range reports {
		out[i] = r.Endpoint()
	}
	return out
}

// writeNew writes a file that must not exist yet; flag is the one that names it.
func writeNew(flag, name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; name another file with %s, or remove it", name, flag)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
