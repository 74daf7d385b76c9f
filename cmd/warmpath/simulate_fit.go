package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/sim/calibrate"
	"github.com/warmpath/warmpath/sim/trace"
)

// runFit prints a fleet whose engines have the speeds found in recorded traffic.
func runFit(e env, c *cobra.Command, o *simulateOptions) error {
	var errs []error
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "fit" && f.Name != "engine" && f.Name != "cache-tokens" {
			errs = append(errs, fmt.Errorf("--%s has no meaning with --fit, which replays nothing", f.Name))
		}
	})
	base, err := fleetfile.Kind(o.engine)
	if err != nil {
		errs = append(errs, fmt.Errorf("--engine: %w", err))
	}
	if o.cacheTokens < 0 {
		errs = append(errs, fmt.Errorf("--cache-tokens must not be negative, got %d", o.cacheTokens))
	}
	if len(errs) > 0 {
		return usageError(errors.Join(errs...))
	}
	if o.cacheTokens > 0 {
		base.CacheTokens = o.cacheTokens
	}
	in, err := openTrace(e, o.fit)
	if err != nil {
		return usageError(err)
	}
	defer in.Close()
	recording, err := trace.ReadRecording(in.name, in)
	if err != nil {
		return usageError(err)
	}
	text, err := fleetfile.Fitted(in.name, o.engine, calibrate.Fit(recording, base))
	if err != nil {
		return usageError(err)
	}
	_, err = e.stdout.Write(text)
	return err
}
