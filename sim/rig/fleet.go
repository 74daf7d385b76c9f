package rig

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// Fleet is the engines on which a trace is replayed.
type Fleet struct {
	Endpoints []Endpoint
	InStep    bool // attention data-parallel ranks of one model instance, with common steps: see engine.InStep
}

// Endpoint is one engine of a fleet.
type Endpoint struct {
	Name      string
	Engine    engine.Config
	Role      fleet.Role
	Start     time.Duration // when it joins, from the start of the run
	Outages   []Outage      // in order
	Slowdowns []Slowdown    // in order
}

// Outage is a period in which an engine is down. It returns with an empty cache.
type Outage struct {
	At  time.Duration // from the start of the run
	For time.Duration
}

// Slowdown is a period in which all of an engine's times are multiplied.
type Slowdown struct {
	At    time.Duration // from the start of the run
	For   time.Duration
	Times float64
}

// Most bounds the endpoints of a fleet.
const Most = 4096

// Preset is a named kind of engine.
type Preset struct {
	Name   string
	Engine engine.Config
	Source string // source of its figures
}

// Presets are the kinds of engine with published figures. Blocks have 64 tokens throughout, which loses 32 tokens of a
// shared prefix on average.
func Presets() []Preset {
	make := func(rate float64, chunk, cache, slots int, base, perSeq time.Duration) engine.Config {
		return engine.Config{
			PrefillTokensPerSecond: rate, ChunkTokens: chunk, CacheTokens: cache / 64 * 64, BlockTokens: 64,
			Slots: slots, StepBase: base, StepPerSeq: perSeq,
		}
	}
	return []Preset{
		{
			"reference", make(9000, 2048, 3_000_000, 64, 4*time.Millisecond, 100*time.Microsecond),
			"prefill between 9,200 tokens/s (A6000, Mistral-7B: the linear term of Preble's curve, as AIBrix e3e10f9 " +
				"has it) and 10,600 (GORGO, 0.094 ms a token); cache: a node of Mooncake keeps about 3 million " +
				"tokens (FAST'25), read here as if all were next to the GPU; the step is a round figure",
		},
		{
			"smg_mock", make(8000, 2048, 524_288, 256, 6*time.Millisecond, 350*time.Microsecond),
			"the mock engine of SGLang Model Gateway's sim_ab.sh: 8,000 tokens/s in chunks of 2,048, " +
				"step 6 ms + 0.35 ms a request, width 256, 524,288 tokens",
		},
		{
			"h100_32b_tp2", make(15_928, 8192, 307_328, 256, 6*time.Millisecond, 100*time.Microsecond),
			"prefill is llm-d's default peakPrefillThroughput, 15,928 tokens/s; cache is that of a pod of 2 H100 " +
				"with Qwen3-32B in llm-d's \"KV-cache wins you can see\" (September 2025), 307,328 tokens; step: " +
				"Dynamo's mocker at low use, about 6 ms",
		},
		{
			"dynamo_mocker", make(1000/1.518344e-2, 8192, 16_384*64, 256, 16*time.Millisecond, 60*time.Microsecond),
			"Dynamo's mocker: prefill 0.01518 ms a token + 16.5 ms, without its quadratic term; " +
				"8,192 batched tokens, 256 sequences, 16,384 blocks of 64",
		},
	}
}

// PresetNamed finds a preset.
func PresetNamed(name string) (Preset, bool) {
	for _, p := range Presets() {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

// Even is n equal engines.
func Even(n int, c engine.Config) Fleet {
	f := Fleet{Endpoints: make([]Endpoint, n)}
	for i := range f.Endpoints {
		f.Endpoints[i] = Endpoint{Name: fmt.Sprintf("e%d", i), Engine: c}
	}
	return f
}

// Mixed is n engines of which every fourth is three times as slow.
func Mixed(n int, c engine.Config) Fleet {
	f := Even(n, c)
	for i := 3; i < n; i += 4 {
		f.Endpoints[i].Engine = c.Slower(3)
	}
	return f
}

// Split is equal engines of which some compute prompts for the others, which answer.
func Split(prefill, decode int, c engine.Config) Fleet {
	f := Even(prefill+decode, c)
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		if e.Name, e.Role = fmt.Sprintf("p%d", i), fleet.RolePrefill; i >= prefill {
			e.Name, e.Role = fmt.Sprintf("d%d", i-prefill), fleet.RoleDecode
		}
	}
	return f
}

// HasRoles reports whether some engine has a role.
func (f Fleet) HasRoles() bool {
	for _, e := range f.Endpoints {
		if e.Role != fleet.RoleBoth {
			return true
		}
	}
	return false
}

// roles reports roles without peers.
func (f Fleet) roles() error {
	var all []fleet.Endpoint
	for _, e := range f.Endpoints {
		all = append(all, fleet.Endpoint{Name: e.Name, Role: e.Role})
	}
	if err := fleet.CheckRoles(all); err != nil {
		return err
	}
	return nil
}

// Validate reports every fault of a fleet, joined into one error.
func (f Fleet) Validate() error {
	var errs []error
	if n := len(f.Endpoints); n < 1 || n > Most {
		errs = append(errs, fmt.Errorf("a fleet has 1..%d endpoints, got %d", Most, n))
	}
	names := map[string]bool{}
	early := false
	for _, e := range f.Endpoints {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("endpoint %q: %w", e.Name, fmt.Errorf(format, args...)))
		}
		if e.Name == "" || names[e.Name] {
			fault("every endpoint needs a name of its own")
		}
		names[e.Name] = true
		if !utf8.ValidString(e.Name) || strings.ContainsFunc(e.Name, unicode.IsControl) {
			fault("a name is text in UTF-8 without control characters")
		}
		early = early || e.Start == 0
		if e.Start < 0 {
			fault("it cannot start at %v, before the run", e.Start)
		}
		end := e.Start
		for _, o := range e.Outages {
			if o.At < end || o.For <= 0 {
				fault("a failure at %v for %v: failures come in order, after its start at %v, and take time",
					o.At, o.For, e.Start)
			}
			end = o.At + o.For
		}
		end = 0
		for _, s := range e.Slowdowns {
			if s.At < end || s.For <= 0 || !(s.Times > 0 && s.Times <= 1000) {
				fault("%v times as slow at %v for %v: slow spells come in order, take time, "+
					"and make it 0 to 1000 times as slow, 0 excluded", s.Times, s.At, s.For)
			}
			end = s.At + s.For
		}
		if err := e.Engine.Validate(); err != nil {
			fault("%w", err)
		}
		if f.InStep && (e.Role != fleet.RoleBoth || e.Start > 0 || len(e.Outages) > 0) {
			fault("engines that compute in step have no roles and are there from start to end")
		}
	}
	if len(f.Endpoints) > 0 && !early {
		errs = append(errs, errors.New("no endpoint is there at the start"))
	}
	errs = append(errs, f.roles())
	return errors.Join(errs...)
}

// Capacity is the number of average trace turns per second that the fleet can compute with an unlimited cache and all
// slots in use.
func (f Fleet) Capacity(d trace.Demand) float64 {
	turns := float64(max(d.Turns, 1))
	total := 0.0
	for _, e := range f.Endpoints {
		c := e.Engine
		total += turns / max(c.Work(d.Uncached(), d.Output)/1e9, 1e-9)
	}
	return total
}

// Block is the smallest block of the fleet's engines, in tokens.
func (f Fleet) Block() int {
	least := 0
	for _, e := range f.Endpoints {
		if b := e.Engine.BlockTokens; least == 0 || b < least {
			least = b
		}
	}
	return max(least, 1)
}

// Plan sets the start times of a trace's turns on the fleet, see Trace.Plan.
func (f Fleet) Plan(t *trace.Trace, load, speed float64, seed uint64) (trace.Plan, error) {
	d := t.Demand(f.Block())
	return t.Plan(d, f.Capacity(d), load, speed, seed)
}
