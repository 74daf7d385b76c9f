package fleetfile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/sim/calibrate"
	"github.com/warmpath/warmpath/sim/rig"
)

// TestFleetFile: what is given holds, 0 included; what is not given is that of the kind.
func TestFleetFile(t *testing.T) {
	f, err := fleetfile.Read("f", []byte(`
endpoints:
  - {engine: reference, step_per_seq: 0s, slots: 3}
  - {name: b, count: 2, slower: 2, start: 5s, failures: [{at: 9s, for: 1s}],
     slowdowns: [{at: 2s, for: 3s, times: 4.5}]}
`))
	if err != nil || len(f.Endpoints) != 3 {
		t.Fatalf("%+v, %v", f, err)
	}
	kind, _ := fleetfile.Kind("reference")
	want := kind
	want.StepPerSeq, want.Slots = 0, 3
	if a := f.Endpoints[0]; a.Name != "e0" || a.Engine != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if b := f.Endpoints[2]; b.Name != "b-1" || b.Engine != kind.Slower(2) || b.Start != 5*time.Second ||
		!slices.Equal(b.Outages, []rig.Outage{{At: 9 * time.Second, For: time.Second}}) ||
		!slices.Equal(b.Slowdowns, []rig.Slowdown{{At: 2 * time.Second, For: 3 * time.Second, Times: 4.5}}) {
		t.Errorf("%+v", b)
	}
}

// TestFleetFaults: an impossible fleet is refused, with the place of the engine at fault.
func TestFleetFaults(t *testing.T) {
	const good = "endpoints:\n  - name: a\n  - "
	for text, want := range map[string]string{
		"":                          `f: no engine is described`,
		"endpoints:\n  - start: 5s": `f:1:1: no endpoint is there at the start`,
		good + "slots: 0":           `f:3:5: endpoint "e1": slots must be at least 1, got 0`,
		good +
			"prefill_rate: 0": `f:3:5: endpoint "e1": prefill tokens per second must be above 0 and finite, got 0`,
		good +
			"cache_tokens: 0": `f:3:5: endpoint "e1": cache tokens (0) must hold at least one block`,
		good + "{step_base: 0s, step_per_seq: 0s}": `f:3:5: endpoint "e1": a step must take time`,
		good + "count: 0":                          `f:3:5: count must be in 1..4096, got 0`,
		good + "slower: 0":                         `f:3:5: slower must be in 0.001..1000, got 0`,
		good + "start: -5s":                        `f:3:5: endpoint "e1": it cannot start at -5s`,
		good + "failures: [{at: 9s, for: -1s}]":    `f:3:5: endpoint "e1": a failure at 9s for -1s`,
		good + "slowdowns: [{at: 1s, for: 2s}]":    `f:3:5: endpoint "e1": 0 times as slow at 1s for 2s`,
		good + "name: a":                           `f:1:1: endpoint "a": every endpoint needs a name of its own`,
		good + `name: "a\x1b"`: `f:3:5: endpoint "a\x1b": a name is text in UTF-8 without ` +
			`control characters`,
		good + "slot: 3":          `unknown key "slot"; did you mean "slots"?`,
		good + "engine: refrence": `f:3:5: no kind of engine "refrence"; did you mean "reference"?`,
	} {
		if _, err := fleetfile.Read("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestFitted: what was fitted is a fleet file, and a recording that shows nothing makes none.
func TestFitted(t *testing.T) {
	engine, err := fleetfile.Kind("reference")
	if err != nil {
		t.Fatal(err)
	}
	engine.Slots, engine.StepBase = 7, 3*time.Millisecond
	text, err := fleetfile.Fitted("a recording", "reference", []calibrate.Endpoint{
		{Endpoint: "a: b", Engine: engine, Requests: 5, Notes: []string{"few"}},
	})
	if err != nil || !strings.Contains(string(text), "    # Note: few.\n") {
		t.Fatalf("%v:\n%s", err, text)
	}
	f, err := fleetfile.Read("f", text)
	if err != nil || len(f.Endpoints) != 1 || f.Endpoints[0].Name != "a: b" || f.Endpoints[0].Engine != engine {
		t.Errorf("%+v, %v; want %+v", f, err, engine)
	}
	for want, fits := range map[string][]calibrate.Endpoint{
		"no streamed answer": nil, "more than the 4096 of a fleet": make([]calibrate.Endpoint, 4097),
	} {
		if len(fits) > 0 {
			fits[0].Requests = 1
		}
		if _, err := fleetfile.Fitted("a recording", "reference", fits); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
