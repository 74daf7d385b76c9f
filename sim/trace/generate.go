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

// Generator describes conversations to generate: how many, how long, their shared prefixes, their tenants, and bursts.
// Lengths are exponential with a floor: x × (0.3 + 0.7 Exp(1)) for a typical x tokens.
type Generator struct {
	Conversations int
	PerSecond     float64       // rate of new conversations (Poisson); 0 leaves starts to the player
	Turns         float64       // mean number of turns after the first
	MaxTurns      int           // maximum turns of a conversation; 0 is 8 times the mean
	System        int           // tokens of the leading prompt of one kind of conversation
	Prefixes      int           // number of such kinds; the k-th is 1/k as frequent as the first
	Tenants       int           // each has its own kinds, and an equal share of conversations
	Greedy        float64       // factor on the last tenant's number of conversations; 0 is 1
	User, Answer  float64       // typical tokens of a user message and of an answer
	First         float64       // factor on the first user message of a conversation; 0 is 1
	Think         time.Duration // mean time between an answer and the next turn
	// the next prompt contains the answer as generated, so that the engine finds it cached; otherwise as different text
	Kept  bool
	Burst float64 // factor on the rate of new conversations during a fifth of the time
	// share of the conversations that start with a document of their own, of typically LongTokens
	Long        float64
	LongTokens  float64
	Flood       int // conversations of one turn that start together in the middle, with one new prompt of FloodTokens
	FloodTokens int
}

// DefaultGenerator is 400 conversations of 6 turns on average behind one system prompt of 2,000 tokens.
func DefaultGenerator() Generator {
	return Generator{
		Conversations: 400, Turns: 5, System: 2000, Prefixes: 1, Tenants: 1, Greedy: 1, User: 400, First: 1,
		Answer: 150, Think: 10 * time.Second, Burst: 1, FloodTokens: 8000, LongTokens: 16_000,
	}
}

// Chats is the workload of the scenario `table` in docs/scenarios.md: 160 conversations, 4 per second, of 1 + Exp(5)
// turns up to 24 behind a system prompt of 2,000 tokens, with user messages around 400 tokens, answers around 60, and
// 0.8 s to think.
func Chats() Generator {
	g := DefaultGenerator()
	g.Conversations, g.PerSecond, g.Turns, g.MaxTurns, g.Answer, g.Think, g.Kept = 160, 4, 5, 24, 60,
		800*time.Millisecond, true
	return g
}

// knob is one named parameter of a generator.
type knob struct {
	name        string
	whole       *int
	real        *float64
	time        *time.Duration
	flag        *bool
	least, most float64
}

func (g *Generator) knobs() []knob {
	return []knob{
		{name: "conversations", whole: &g.Conversations, least: 1, most: 1e6},
		{name: "rate", real: &g.PerSecond, most: 1e6},
		{name: "turns", real: &g.Turns, most: 1000},
		{name: "max_turns", whole: &g.MaxTurns, most: 1e5},
		{name: "system", whole: &g.System, most: 1e6},
		{name: "prefixes", whole: &g.Prefixes, least: 1, most: 1e5},
		{name: "tenants", whole: &g.Tenants, least: 1, most: 1e4},
		{name: "greedy", real: &g.Greedy, least: 1, most: 1000},
		{name: "user", real: &g.User, least: 1, most: 1e6},
		{name: "first", real: &g.First, least: 1, most: 1000},
		{name: "answer", real: &g.Answer, least: 1, most: 1e5},
		{name: "kept", flag: &g.Kept, most: 1},
		{name: "think", time: &g.Think, most: float64(24 * time.Hour)},
		{name: "burst", real: &g.Burst, least: 1, most: 1000},
		{name: "long", real: &g.Long, most: 1},
		{name: "long_tokens", real: &g.LongTokens, least: 1, most: 1e6},
		{name: "flood", whole: &g.Flood, most: 1e5},
		{name: "flood_tokens", whole: &g.FloodTokens, least: 1, most: 1e6},
	}
}

// GeneratorKeys are the names accepted by ParseGenerator.
func GeneratorKeys() []string {
	var g Generator
	var names []string
	for _, k := range g.knobs() {
		names = append(names, k.name)
	}
	return names
}

// ParseGenerator applies settings such as "conversations=400" to the defaults. It reports all faults.
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
			errs = append(errs, fmt.Errorf("generator setting %q: want name=value, with one of the names %s",
				s, strings.Join(GeneratorKeys(), ", ")))
		case i < 0:
			errs = append(errs, fmt.Errorf("no generator setting %q; want one of %s",
				name, strings.Join(GeneratorKeys(), ", ")))
		default:
			if err := knobs[i].set(text); err != nil {
				errs = append(errs, fmt.Errorf("generator setting %s: %w", name, err))
			}
		}
	}
	errs = append(errs, g.bounded())
	return g, errors.Join(errs...)
}

// bounded reports a trace of too many turns.
func (g *Generator) bounded() error {
	if all := float64(g.Conversations) * (g.Turns + 1); all > 5e6 {
		return fmt.Errorf("about %.0f turns are more than the 5000000 that one trace may have", all)
	}
	return nil
}

// Validate reports every fault of a generator, joined into one error.
func (g Generator) Validate() error {
	var errs []error
	for _, k := range g.knobs() {
		if err := k.check(); err != nil {
			errs = append(errs, fmt.Errorf("generator setting %s: %w", k.name, err))
		}
	}
	return errors.Join(append(errs, g.bounded())...)
}

func (k *knob) set(text string) error {
	var err error
	switch {
	case k.whole != nil:
		*k.whole, err = strconv.Atoi(text)
	case k.real != nil:
		*k.real, err = strconv.ParseFloat(text, 64)
	case k.flag != nil:
		if *k.flag, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("want true or false, got %q", text)
		}
	default:
		*k.time, err = time.ParseDuration(text)
	}
	if err != nil {
		return fmt.Errorf("%q is not a number, or for think a duration such as 10s", text)
	}
	return k.check()
}

// check reports a value that is out of bounds.
func (k *knob) check() error {
	var value float64
	var text string
	switch {
	case k.whole != nil:
		value, text = float64(*k.whole), strconv.Itoa(*k.whole)
	case k.real != nil:
		value, text = *k.real, strconv.FormatFloat(*k.real, 'g', -1, 64)
	case k.flag != nil:
		return nil
	default:
		value, text = float64(*k.time), k.time.String()
	}
	switch {
	case value >= k.least && value <= k.most:
		return nil
	case k.time != nil:
		return fmt.Errorf("must be in %v..%v, got %s", time.Duration(k.least), time.Duration(k.most), text)
	default:
		return fmt.Errorf("must be in %v..%v, got %s", k.least, k.most, text)
	}
}

// Trace generates the traffic. Equal seeds give equal traces.
func (g Generator) Trace(seed uint64) *Trace {
	t := Of(g.Draw(seed), g.PerSecond > 0)
	t.burst = g.Burst
	return t
}

// Draw generates the conversations, in order of their start. Equal seeds give equal results.
func (g Generator) Draw(seed uint64) []Conversation {
	rng := rand.New(rand.NewPCG(seed, 0x67656e6572617465))
	heads := make([]uint64, g.Tenants*g.Prefixes)
	for i := range heads {
		heads[i] = rng.Uint64()
	}
	out := make([]Conversation, 0, g.Conversations+g.Flood)
	for i := range g.Conversations {
		tenant := chance.Harmonic(rng, g.Tenants)
		head := heads[tenant*g.Prefixes+chance.Harmonic(rng, g.Prefixes)]
		c := Conversation{ID: "c" + strconv.Itoa(i), Together: -1, System: head, SystemTokens: g.System, Kept: g.Kept}
		if g.Tenants > 1 {
			c.Tenant = "t" + strconv.Itoa(tenant)
		}
		c.Turns = g.exchanges(rng)
		out = append(out, c)
	}
	if g.PerSecond > 0 {
		clock := rand.New(rand.NewPCG(seed, 0x626567696e6e6673))
		at := 0.0
		for i := range out {
			at += chance.Exponential(clock) / g.PerSecond
			out[i].Start = time.Duration(float64(at * 1e9))
		}
	}
	out = append(out, g.greed(out, heads, rng)...)
	return append(out, g.flood(rng)...)
}

// greed generates the last tenant's additional conversations.
func (g *Generator) greed(all []Conversation, heads []uint64, rng *rand.Rand) []Conversation {
	if g.Greedy <= 1 || g.Tenants < 2 {
		return nil
	}
	last := "t" + strconv.Itoa(g.Tenants-1)
	var out []Conversation
	for i := range all {
		if all[i].Tenant != last {
			continue
		}
		for range int(g.Greedy) - 1 {
			c := all[i]
			c.ID, c.System, c.Turns = "g"+strconv.Itoa(len(out)),
				heads[(g.Tenants-1)*g.Prefixes+chance.Harmonic(rng, g.Prefixes)], g.exchanges(rng)
			c.Start = time.Duration(rng.Float64() * float64(all[len(all)-1].Start))
			out = append(out, c)
		}
	}
	return out
}

// exchanges generates the turns of a conversation.
func (g *Generator) exchanges(rng *rand.Rand) []Exchange {
	document := 0
	if g.Long > 0 && rng.Float64() < g.Long {
		document = g.size(g.LongTokens, rng)
	}
	most := 8 * int(g.Turns+1)
	if g.MaxTurns > 0 {
		most = g.MaxTurns - 1
	}
	turns := make([]Exchange, 1+min(int(float64(g.Turns*chance.Exponential(rng))), most))
	for i := range turns {
		x := &turns[i]
		x.Seed = rng.Uint64()
		x.User = g.size(g.User, rng) + document
		if i == 0 && g.First > 0 {
			x.User = min(int(float64(x.User)*g.First), maxTurnTokens)
		}
		document = 0
		if think := time.Duration(float64(g.Think) * chance.Exponential(rng)); i > 0 {
			x.Think = think
		}
		x.Answer = g.size(g.Answer, rng)
	}
	return turns
}

func (g *Generator) size(typical float64, rng *rand.Rand) int {
	return min(max(int(typical*(0.3+float64(0.7*chance.Exponential(rng)))), 1), maxTurnTokens)
}

// flood generates the conversations that start together.
func (g *Generator) flood(rng *rand.Rand) []Conversation {
	if g.Flood == 0 {
		return nil
	}
	out := make([]Conversation, g.Flood)
	head := rng.Uint64()
	for i := range out {
		x := Exchange{Seed: rng.Uint64(), User: g.size(g.User, rng), Answer: g.size(g.Answer, rng)}
		out[i] = Conversation{
			ID: "f" + strconv.Itoa(i), Together: 0.5, System: head, SystemTokens: g.FloodTokens, Turns: []Exchange{x},
		}
	}
	return out
}

// maxTurnTokens bounds a turn's text (4 MB).
const maxTurnTokens = 1 << 20
