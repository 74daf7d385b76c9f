// Package simreport shows replays that were run side by side: as tables for a terminal, as JSON, and as an HTML page,
// whose charts the browser draws. It owns columns, colours and scales. It promises that the same figures give the same
// bytes. It never runs anything and never opens files.
package simreport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// Introduce says what is about to be replayed.
func Introduce(w io.Writer, t *trace.Trace, f simrig.Fleet, p trace.Plan) {
	d, name := p.Demand, t.Name
	if name != string(t.Format) {
		name += " (" + string(t.Format) + ")"
	}
	fmt.Fprintf(w, "%s: %d requests of %d conversations,\n%.0f prompt and %.0f answer tokens on average\n",
		name, d.Turns, d.Sessions, float64(d.Prompt)/float64(d.Turns), float64(d.Output)/float64(d.Turns))
	fmt.Fprintf(w,
		"%d endpoints; load %.2f of their %.1f requests a second with an unlimited cache,\nwhich would find %.1f %%",
		len(f.Endpoints), p.Load, f.Capacity(d), 100*d.IdealHitRate())
	if t.Timed {
		fmt.Fprintf(w, "; sessions begin at recorded times × %.3g\n", p.Begin)
	} else if t.Closed {
		fmt.Fprintf(w, "; a session begins every %s\n", p.Gap.Round(time.Millisecond))
	} else {
		fmt.Fprintf(w, "; recorded times × %.3g\n", p.Stretch)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}

// JSON is the figures, an object for each run.
func JSON(runs []*simrun.Run) ([]byte, error) {
	all := make([]figures.Figures, len(runs))
	for i, s := range runs {
		all[i] = s.Figures
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	err := enc.Encode(all)
	return out.Bytes(), err
}
