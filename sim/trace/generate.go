package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
)

// Generator draws traffic of conversations: how many, how long, what they share, whose they are, and how unevenly they come.
// Lengths are exponential with a floor, as Workload has them.
type Generator struct {
	Conversations int
	Turns         float64       // mean turns after the first, at most 8 times as many
	System        int           // tokens of the prompt that conversations of one kind begin with
	Prefixes      int           // such kinds; the k-th is 1/k as frequent as the first
	Tenants       int           // each has kinds of its own, and conversations in the same proportion
	User, Answer  float64       // typical tokens of a user's turn and of an answer
	Think         time.Duration // mean time between an answer and the next turn
	Burst         float64       // for a fifth of the time conversations begin so many times as often as else
	Long          float64       // share of the conversations that begin with a document of their own, of LongTokens typically
	LongTokens    float64
	Flood         int // conversations of one turn that come together in the middle, with one new prompt of FloodTokens
	FloodTokens   int
}

// DefaultGenerator is 400 conversations of 6 turns on average behind one system prompt of 2,000 tokens.
func DefaultGenerator() Generator {
	return Generator{
		Conversations: 400, Turns: 5, System: 2000, Prefixes: 1, Tenants: 1, User: 400, Answer: 150, Think: 10 * time.Second, Burst: 1, FloodTokens: 8000, LongTokens: 16_000,
	}
}

// knob is one number of a generator under its name.
type knob struct {
	name        string
	whole       *int
	real        *float64
	time        *time.Duration
	least, most float64
}

func (g *Generator) knobs() []knob {
	return []knob{
		{name: "conversations", whole: &g.Conversations, least: 1, most: 1e6},
		{name: "turns", real: &g.Turns, most: 1000},
		{name: "system", whole: &g.System, most: 1e6},
		{name: "prefixes", whole: &g.Prefixes, least: 1, most: 1e5},
		{name: "tenants", whole: &g.Tenants, least: 1, most: 1e4},
		{name: "user", real: &g.User, least: 1, most: 1e6},
		{name: "answer", real: &g.Answer, least: 1, most: 1e5},
		{name: "think", time: &g.Think, most: float64(24 * time.Hour)},
		{name: "burst", real: &g.Burst, least: 1, most: 1000},
		{name: "long", real: &g.Long, most: 1},
		{name: "long_tokens", real: &g.LongTokens, least: 1, most: 1e6},
		{name: "flood", whole: &g.Flood, most: 1e5},
		{name: "flood_tokens", whole: &g.FloodTokens, least: 1, most: 1e6},
	}
}

// GeneratorKeys are the names that ParseGenerator knows.
func GeneratorKeys() []string {
	var g Generator
	var names []string
	for _, k := range g.knobs() {
		names = append(names, k.name)
	}
	return names
}

// ParseGenerator reads settings such as "conversations=400" over the defaults. All faults are reported.
func ParseGenerator(settings []string) (Generator, error) {
	g := DefaultGenerator()
	knobs := g.knobs()
	var errs []error
	for _, s := range settings {
		name, text, ok := strings.Cut(s, "=")
		i := -1
		for j := range knobs {
			if knobs[j].name == name {
				i = j
			}
		}
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("sim: generator setting %q: want name=value", s))
		case i < 0:
			errs = append(errs, fmt.Errorf("sim: no generator setting %q; want one of %s", name, strings.Join(GeneratorKeys(), ", ")))
		default:
			if err := knobs[i].set(text); err != nil {
				errs = append(errs, fmt.Errorf("sim: generator setting %s: %w", name, err))
			}
		}
	}
	if all := float64(g.Conversations) * (g.Turns + 1); all > 5e6 {
		errs = append(errs, fmt.Errorf("sim: about %.0f turns are more than the 5000000 that one trace may have", all))
	}
	return g, errors.Join(errs...)
}

func (k *knob) set(text string) error {
	var err error
	var value float64
	switch {
	case k.whole != nil:
		*k.whole, err = strconv.Atoi(text)
		value = float64(*k.whole)
	case k.real != nil:
		*k.real, err = strconv.ParseFloat(text, 64)
		value = *k.real
	default:
		*k.time, err = time.ParseDuration(text)
		value = float64(*k.time)
	}
	if err != nil {
		return fmt.Errorf("%q is not what it should be: a number, or a duration such as 10s for think", text)
	}
	if !(value >= k.least && value <= k.most) {
		if k.time != nil {
			return fmt.Errorf("must be in %v..%v, got %s", time.Duration(k.least), time.Duration(k.most), text)
		}
		return fmt.Errorf("must be in %v..%v, got %s", k.least, k.most, text)
	}
	return nil
}

// Trace draws the traffic. The same seed gives the same.
func (g Generator) Trace(seed uint64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 0x67656e6572617465))
	t := &Trace{Name: "generated", Format: FormatGenerated, Closed: true, burst: g.Burst}
	heads := make([]int32, g.Tenants*g.Prefixes)
	for i := range heads {
		heads[i] = t.forest.add(-1, 0, rng.Uint64())
		t.forest.nodes[i].common = true
	}
	for i := range g.Conversations {
		tenant := chance.Harmonic(rng, g.Tenants)
		head := heads[tenant*g.Prefixes+chance.Harmonic(rng, g.Prefixes)]
		s := Session{ID: "c" + strconv.Itoa(i), Parent: -1, After: -1, together: -1}
		if g.Tenants > 1 {
			s.Tenant = "t" + strconv.Itoa(tenant)
		}
		t.Sessions = append(t.Sessions, s)
		g.converse(t, i, head, rng)
	}
	if g.Flood > 0 {
		g.flood(t, rng)
	}
	return t
}

// converse draws the turns of a conversation. An answer comes back in the next prompt as text of its own.
func (g *Generator) converse(t *Trace, session int, head int32, rng *rand.Rand) {
	node, tokens, from, last := head, g.System, int32(-1), int32(-1)
	document := 0
	if g.Long > 0 && rng.Float64() < g.Long {
		document = g.size(g.LongTokens, rng)
	}
	for range 1 + min(int(float64(g.Turns*chance.Exponential(rng))), 8*int(g.Turns+1)) {
		node = t.forest.add(node, tokens, rng.Uint64()) // from the end of the prompt before
		if from >= 0 {
			tokens += t.Turns[from].Output
		}
		tokens += g.size(g.User, rng) + document
		document = 0
		delay := time.Duration(float64(g.Think) * chance.Exponential(rng))
		t.join(session, Turn{from: from, Delay: delay, Prompt: tokens, Output: g.size(g.Answer, rng), node: node}, &last)
		from = last
	}
}

func (g *Generator) size(typical float64, rng *rand.Rand) int {
	return min(max(int(typical*(0.3+float64(0.7*chance.Exponential(rng)))), 1), maxTurnTokens)
}

// flood adds the conversations that come together.
func (g *Generator) flood(t *Trace, rng *rand.Rand) {
	head := t.forest.add(-1, 0, rng.Uint64())
	t.forest.nodes[head].common = true
	for i := range g.Flood {
		t.Sessions = append(t.Sessions, Session{ID: "f" + strconv.Itoa(i), Parent: -1, After: -1, together: 0.5})
		own := t.forest.add(head, g.FloodTokens, rng.Uint64())
		last := int32(-1)
		t.join(len(t.Sessions)-1, Turn{from: -1, Prompt: g.FloodTokens + g.size(g.User, rng), Output: g.size(g.Answer, rng), node: own}, &last)
	}
}
