package fleetfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/warmpath/warmpath/sim/calibrate"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// Fitted writes a fleet file of what was fitted to a recording with that name, with how far its figures can be trusted.
func Fitted(name, kind string, fits []calibrate.Endpoint) ([]byte, error) {
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
	fmt.Fprintf(&b, "# Fitted by warmpath simulate --fit to %d requests on %d endpoints, recorded in\n# %q.\n",
		requests, len(fits), name)
	fmt.Fprintf(&b,
		"# Chunk sizes, and slots and caches that probes did not report, are those of the preset.\nendpoints:\n")
	for i := range fits {
		writeFit(&b, kind, &fits[i])
	}
	_, err := Read("the fitted fleet", b.Bytes())
	return b.Bytes(), err
}

func writeFit(w io.Writer, kind string, f *calibrate.Endpoint) {
	label, _ := json.Marshal(f.Endpoint) // a text of JSON is one of YAML
	c := &f.Engine
	fmt.Fprintf(w, "  - name: %s\n", label)
	fmt.Fprintf(w, "    # %d requests. Prefill: %d observations, %.1f %% off at the median; steps: %d answers, "+
		"%.1f %% off; %.0f %% outliers.\n", f.Requests, f.Prefills, 100*f.TTFT, f.Decodes, 100*f.ITL, 100*f.Outliers)
	fmt.Fprintf(w, "    # Fixed time to the first token, which the engine model does not include: %s.\n", f.Fixed)
	for _, note := range f.Notes {
		fmt.Fprintf(w, "    # Note: %s.\n", note)
	}
	fmt.Fprintf(w, "    engine: %s\n    prefill_rate: %.1f\n    chunk: %d\n",
		kind, c.PrefillTokensPerSecond, c.ChunkTokens)
	fmt.Fprintf(w, "    step_base: %s\n    step_per_seq: %s\n", c.StepBase, c.StepPerSeq)
	fmt.Fprintf(w, "    slots: %d\n    cache_tokens: %d\n    block_tokens: %d\n", c.Slots, c.CacheTokens, c.BlockTokens)
}
