package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/sim/calibrate"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// runFit prints a fleet whose engines are as fast as recorded traffic shows them to be.
func runFit(e env, c *cobra.Command, o *simulateOptions) error {
	var errs []error
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "fit" && f.Name != "engine" && f.Name != "cache-tokens" {
			errs = append(errs, fmt.Errorf("--%s has no meaning with --fit, which replays nothing", f.Name))
		}
	})
	base, err := preset(o.engine)
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
	text, err := fittedFleet(in.name, o.engine, calibrate.Fit(recording, base))
	if err != nil {
		return usageError(err)
	}
	_, err = e.stdout.Write(text)
	return err
}

// fittedFleet writes a fleet file, with what is to be thought of its figures.
func fittedFleet(name, kind string, fits []calibrate.Endpoint) ([]byte, error) {
	requests := 0
	for i := range fits {
		requests += fits[i].Requests
	}
	if requests == 0 {
		return nil, fmt.Errorf("%s: no streamed answer in it that would tell how fast its engine is", name)
	}
	if len(fits) > simrig.Most {
		return nil, fmt.Errorf("%s: %d endpoints, more than the %d of a fleet", name, len(fits), simrig.Most)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Fitted by warmpath simulate --fit to %d requests on %d endpoints, recorded in\n# %q.\n", requests, len(fits), name)
	fmt.Fprintf(&b, "# Chunks, and what probes did not find out of slots and caches, are those of the kind.\nendpoints:\n")
	for i := range fits {
		writeFit(&b, kind, &fits[i])
	}
	_, err := readFleet("the fitted fleet", b.Bytes())
	return b.Bytes(), err
}

func writeFit(w io.Writer, kind string, f *calibrate.Endpoint) {
	label, _ := json.Marshal(f.Endpoint) // a text of JSON is one of YAML
	c := &f.Engine
	fmt.Fprintf(w, "  - name: %s\n", label)
	fmt.Fprintf(w, "    # %d requests. Prefill: %d observations, %.1f %% off at the median; steps: %d answers, %.1f %% off; %.0f %% outliers.\n",
		f.Requests, f.Prefills, 100*f.TTFT, f.Decodes, 100*f.ITL, 100*f.Outliers)
	fmt.Fprintf(w, "    # Fixed time to the first token, which the model of engines does not have: %s.\n", f.Fixed)
	for _, note := range f.Notes {
		fmt.Fprintf(w, "    # Note: %s.\n", note)
	}
	fmt.Fprintf(w, "    engine: %s\n    prefill_rate: %.1f\n    chunk: %d\n", kind, c.PrefillTokensPerSecond, c.ChunkTokens)
	fmt.Fprintf(w, "    step_base: %s\n    step_per_seq: %s\n", c.StepBase, c.StepPerSeq)
	fmt.Fprintf(w, "    slots: %d\n    cache_tokens: %d\n    block_tokens: %d\n", c.Slots, c.CacheTokens, c.BlockTokens)
}
